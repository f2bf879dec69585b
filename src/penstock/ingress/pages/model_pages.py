"""`/v1/models` and Workers AI's model search and schema. Lists models with a replica."""

import uuid
from collections.abc import Callable
from datetime import UTC, datetime

from starlette.requests import Request
from starlette.responses import Response

from penstock.catalogue import Catalogue
from penstock.catalogue.names import DEFAULT_NAME
from penstock.clock import Clock
from penstock.errors import AccountBlocked, Forbidden, InvalidRequest, UnknownModel
from penstock.ingress.pages.json_pages import json_response
from penstock.ingress.pages.openapi import input_schema, output_schema
from penstock.intake.caller_headers import CallerHeaders
from penstock.intake.request_reader import RequestReader
from penstock.records.account import Key, Role
from penstock.records.model import Model, ModelId
from penstock.wire.resources.models import OpenAIModelList, found_model, openai_model

WantedModels = Callable[[], frozenset[ModelId]]

_PER_PAGE_MAX = 1000


class ModelPages:
    """Reads the catalogue and the roster; any valid key of the account may look."""

    def __init__(
        self, reader: RequestReader, catalogue: Catalogue, wanted: WantedModels, clock: Clock
    ) -> None:
        self._reader = reader
        self._catalogue = catalogue
        self._wanted = wanted
        self._clock = clock

    async def list_openai(self, request: Request) -> Response:
        """List ids, then `default` and aliases: clients offer the names that stand here."""
        visible = self._visible(await self._key(request))
        listed = [openai_model(model) for model in visible]
        default = self._catalogue.default
        if default in visible:
            listed.append(openai_model(default, DEFAULT_NAME))
        listed += [openai_model(model, alias) for model in visible for alias in model.aliases]
        return json_response(OpenAIModelList(listed))

    async def show_openai(self, request: Request) -> Response:
        key = await self._key(request)
        model = self._catalogue.find(request.path_params["model"])
        if model not in self._visible(key):
            raise UnknownModel(f"No such model: {model.id} has no replica here.", param="model")
        return json_response(openai_model(model))

    async def search(self, request: Request) -> Response:
        key = await self._key(request)
        query = request.query_params
        wanted_text = query.get("search", "").lower()
        author, task = query.get("author", "").lower(), query.get("task", "").lower()
        found = [
            m
            for m in self._visible(key)
            if wanted_text in f"{m.id} {m.description}".lower()
            and author in m.id.lower()
            and task in m.task.lower()
        ]
        today = datetime.fromtimestamp(self._clock.now(), UTC).date()
        page = _positive(query.get("page"), 1, "page")
        per_page = min(_positive(query.get("per_page"), 50, "per_page"), _PER_PAGE_MAX)
        shown = found[(page - 1) * per_page : page * per_page]
        return json_response(
            {
                "result": [found_model(m, _uuid_of(m), today) for m in shown],
                "result_info": {
                    "page": page,
                    "per_page": per_page,
                    "count": len(shown),
                    "total_count": len(found),
                },
                "success": True,
                "errors": [],
                "messages": [],
            }
        )

    async def schema(self, request: Request) -> Response:
        await self._key(request)
        name = request.query_params.get("model", "")
        if not name:
            raise InvalidRequest("`model` is required.", param="model")
        model = self._catalogue.find(name)
        result = {"input": input_schema(model.family), "output": output_schema(model.family)}
        return json_response({"result": result, "success": True, "errors": [], "messages": []})

    async def _key(self, request: Request) -> Key:
        key = await self._reader.authenticate(CallerHeaders(request.scope["headers"]))
        account = request.path_params.get("account_id")
        if key.account is not None:
            if account is not None and account != key.account.id:
                raise Forbidden("The account in the path is not this key's.")
            if key.account.is_blocked:
                raise AccountBlocked
        return key

    def _visible(self, key: Key) -> list[Model]:
        wanted = self._wanted()
        sees_all = key.role is Role.OPERATOR
        account = key.account.id if key.account is not None else ""
        return [
            m
            for m in self._catalogue.models
            if m.id in wanted
            and (sees_all or not m.allowed_accounts or account in m.allowed_accounts)
        ]


def _positive(text: str | None, default: int, name: str) -> int:
    if text is None:
        return default
    is_number = text.isascii() and text.isdigit() and len(text) <= 7
    if not is_number or not 1 <= int(text) <= 10**6:
        raise InvalidRequest(f"`{name}` must be a whole number from 1 to 1000000.", param=name)
    return int(text)


def _uuid_of(model: Model) -> str:
    """Return a stable UUID for a model: Workers AI's ids are UUIDs, Penstock's are names."""
    return str(uuid.uuid5(uuid.NAMESPACE_URL, model.id))
