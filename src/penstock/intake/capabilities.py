"""Checks that a model can do what a request needs."""

from typing import Final

from penstock.errors import MissingCapability
from penstock.records.model import Capability, Model
from penstock.records.request import Api
from penstock.wire.apis.prompt_request import PromptRequest


def require_capabilities(model: Model, prompt: PromptRequest, api: Api) -> None:
    """Refuse a request that needs what its model cannot do."""
    missing = prompt.needs - model.capabilities
    if missing:
        name = min(missing)
        raise MissingCapability(
            f"{model.id} does not have the capability `{name}`.",
            param=_PARAM.get((api, name)) or _PARAM[Api.CHAT, name],
        )


_PARAM: Final = {
    (Api.CHAT, Capability.VISION): "messages",
    (Api.CHAT, Capability.TOOLS): "tools",
    (Api.CHAT, Capability.STRUCTURED_OUTPUT): "response_format",
    (Api.MESSAGES, Capability.STRUCTURED_OUTPUT): "output_config",
    (Api.RESPONSES, Capability.STRUCTURED_OUTPUT): "text",
    (Api.RESPONSES, Capability.VISION): "input",
}
