"""A reader of requests under contracts, with a memory of its own, as a gateway worker has one."""

from msgspec.structs import replace
from tests.unit.contracts.contract_samples import CATALOGUE, contract_set

from penstock.catalogue import Catalogue
from penstock.contracts.current import CurrentContracts
from penstock.ingress.settings import IngressSettings
from penstock.intake.policies import IntakePolicies
from penstock.intake.request_reader import RequestReader
from penstock.intake.storage_policy import StoragePolicy
from penstock.metering import PriceBook
from penstock.policy import KeyMirror, PolicySettings
from penstock.store import Store, StoreSettings
from penstock.testing.manual_clock import ManualClock


def contract_reader(
    *contracts: str, catalogue: Catalogue = CATALOGUE, has_server_tools: bool = False
) -> RequestReader:
    """Return a new reader; each of `contracts` is the text of one."""
    mirror = KeyMirror(Store(StoreSettings(dsn="host=127.0.0.1")), ManualClock(), PolicySettings())
    mirror._cell_secret = b"a cell's secret"
    current = CurrentContracts(contract_set(*contracts, catalogue=catalogue) if contracts else None)
    policies = IntakePolicies(StoragePolicy(), current)
    intake = replace(IngressSettings().intake, server_tools=has_server_tools)
    return RequestReader(catalogue, mirror, PriceBook(catalogue.models), intake, policies=policies)
