"""Finds the API that a request uses, and the function that reads each API's bodies."""

from collections.abc import Callable
from typing import Final

from penstock.errors import InvalidRequest
from penstock.intake.routes import RequestRoute
from penstock.records.model import Family, Model
from penstock.records.request import Api
from penstock.wire.apis.anthropic import read_messages
from penstock.wire.apis.completions import read_completions
from penstock.wire.apis.embeddings import read_embeddings
from penstock.wire.apis.prompt_request import PromptRequest
from penstock.wire.apis.responses import read_responses
from penstock.wire.json_body import Fields, is_given

Reader = Callable[[Fields, frozenset[str]], PromptRequest]

# Without chat: its reader also takes the parts of the body that are decoded already.
READERS: Final[dict[Api, Reader]] = {
    Api.COMPLETIONS: read_completions,
    Api.EMBEDDINGS: read_embeddings,
    Api.MESSAGES: read_messages,
    Api.RESPONSES: read_responses,
}


def api_of(route: RequestRoute, model: Model, fields: Fields) -> Api:
    """Find the API by the path; on `/ai/run`, by the model and, if it takes two, by the body."""
    if route.is_run:
        if model.family is Family.EMBEDDINGS:
            return Api.EMBEDDINGS
        if model.family is not Family.RESPONSES or not is_given(fields, "input"):
            return Api.CHAT
        for other in ("messages", "prompt"):
            if is_given(fields, other):
                raise InvalidRequest(f"Send `input` or `{other}`, not both.", param="input")
        return Api.RESPONSES
    makes_vectors = model.family is Family.EMBEDDINGS
    if (route.api is Api.EMBEDDINGS) is not makes_vectors:
        makes = "vectors" if makes_vectors else "text"
        raise InvalidRequest(f"{model.id} makes {makes}: this path is not for it.", param="model")
    return route.api
