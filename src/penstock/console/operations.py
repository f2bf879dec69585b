"""Every operation of administration."""

from typing import Any, Final

from penstock.console.account_operations import ACCOUNT_OPERATIONS
from penstock.console.container_operations import CONTAINER_OPERATIONS
from penstock.console.contract_operations import CONTRACT_OPERATIONS
from penstock.console.decision_operations import DECISION_OPERATIONS
from penstock.console.deployment_operations import DEPLOYMENT_OPERATIONS
from penstock.console.fleet_operations import FLEET_OPERATIONS
from penstock.console.flex_operations import FLEX_OPERATIONS
from penstock.console.incident_operations import INCIDENT_OPERATIONS
from penstock.console.job_operations import JOB_OPERATIONS
from penstock.console.key_operations import KEY_OPERATIONS
from penstock.console.limit_operations import LIMIT_OPERATIONS
from penstock.console.operation import Operation
from penstock.console.response_operations import RESPONSE_OPERATIONS
from penstock.console.tool_operations import TOOL_OPERATIONS
from penstock.console.usage_operations import USAGE_OPERATIONS

OPERATIONS: Final[tuple[Operation[Any, Any], ...]] = (
    *ACCOUNT_OPERATIONS,
    *KEY_OPERATIONS,
    *LIMIT_OPERATIONS,
    *CONTRACT_OPERATIONS,
    *DECISION_OPERATIONS,
    *JOB_OPERATIONS,
    *FLEX_OPERATIONS,
    *RESPONSE_OPERATIONS,
    *CONTAINER_OPERATIONS,
    *TOOL_OPERATIONS,
    *USAGE_OPERATIONS,
    *INCIDENT_OPERATIONS,
    *FLEET_OPERATIONS,
    *DEPLOYMENT_OPERATIONS,
)
