"""From headers and body to an InferenceRequest: who, which model, what of it we must know.

Synchronous but for an unknown key, which is looked up once before it is refused.
"""

from typing import TYPE_CHECKING, Final

import msgspec
from msgspec import Raw

from penstock.catalogue import Catalogue
from penstock.clock import timestamp_of
from penstock.errors import InvalidRequest, MissingCapability, Unauthenticated
from penstock.ingress.apis import READERS, api_of
from penstock.ingress.asked import Asked, Wish, wish_of
from penstock.ingress.caller_headers import TRUE, CallerHeaders, label
from penstock.ingress.estimate import Estimate, estimate, within_cap
from penstock.ingress.granted import Granted, Grants
from penstock.ingress.routes import Route
from penstock.ingress.settings import Settings
from penstock.metering import PriceBook
from penstock.policy import KeyMirror
from penstock.records.account import Key
from penstock.records.model import Capability, Family, Model
from penstock.records.price import Price, Tier
from penstock.records.prompt_chain import PromptChain
from penstock.records.request import Api, InferenceRequest, RequestId
from penstock.wire.chat import read_chat
from penstock.wire.hosted_tools import drop_namespaces
from penstock.wire.json_body import Fields, check_names, read_fields
from penstock.wire.prompt.chain import digest, prompt_chain
from penstock.wire.prompt.parsed_body import ParsedBody
from penstock.wire.prompt.reader import PromptReader
from penstock.wire.prompt_request import MODEL, PromptRequest
from penstock.wire.workers_ai import chat_fields

if TYPE_CHECKING:
    from penstock.ingress.large_reading import LargeReading

# What these send has messages, and so a prompt family; texts for completions have none.
_CONVERSATIONS: Final = frozenset({Api.CHAT, Api.MESSAGES, Api.RESPONSES})
_input_decoder = msgspec.json.Decoder(Fields)


class RequestReader:
    """Catalogue and keys, joined for reading. Of its own it has the prompts of earlier turns."""

    def __init__(
        self,
        catalogue: Catalogue,
        keys: KeyMirror,
        prices: PriceBook,
        settings: Settings,
        prompts: PromptReader | None = None,
        large: "LargeReading | None" = None,
    ) -> None:
        # For bodies that are too long to be read on the event loop; None in its own thread.
        self.large = large
        self._catalogue = catalogue
        self._keys = keys
        self._grants = Grants(keys)
        self._prices = prices
        self._media_hosts = frozenset(settings.media_hosts)
        self._bytes_per_token = settings.prompt_bytes_per_token
        self._is_flex_on = settings.flex
        self._prompts = PromptReader() if prompts is None else prompts

    def find_key(self, headers: CallerHeaders) -> Key | None:
        """The caller's key, if it is known here; `authenticate` looks further."""
        return self._keys.find_hashed(headers.secret_sha256())

    def find_account(self, headers: CallerHeaders) -> str:
        """The account of the caller's key, if the key is known here; else ""."""
        try:
            key = self.find_key(headers)
        except Unauthenticated:
            return ""
        return "" if key is None or key.account is None else key.account.id

    async def authenticate(self, headers: CallerHeaders) -> Key:
        return self.find_key(headers) or await self._keys.look_up(headers.secret())

    def read(
        self, request_id: RequestId, route: Route, headers: CallerHeaders, key: Key, body: bytes
    ) -> InferenceRequest:
        """A request that is wanted now, whatever it says of later."""
        return self.prompt(request_id, headers, self.open(route, headers, key, body))

    def open(self, route: Route, headers: CallerHeaders, key: Key, body: bytes) -> Asked:
        """Whose it is, for which model, and whether it is wanted now; its prompt is not read."""
        headers.refuse_encoding()
        parsed = self._split(route, key, body)
        fields = parsed.fields
        model = self._find_model(route, fields)
        granted = self._grants.find(key, model, route.account)
        if route.is_run:
            fields = _unwrapped(route, fields)
        api = api_of(route, model, fields)
        wish = wish_of(route, headers, fields)
        if wish is not None:
            self._require_queue(model, wish, api)
        asked = Asked(route, granted, fields, api, len(body), wish)
        if fields is parsed.fields and parsed.messages is not None:
            # What came one level down has its own messages, whatever stands beside it.
            asked.parsed = parsed
        return asked

    def prompt(
        self, request_id: RequestId, headers: CallerHeaders, asked: Asked, tier: Tier = Tier.NOW
    ) -> InferenceRequest:
        """The prompt itself, priced by how soon it is wanted."""
        route, model, granted = asked.route, asked.model, asked.granted
        grant, seed = granted.grant, granted.seed
        parsed = _taken_out(asked)
        prompt = self._read(asked, parsed)
        if prompt.needs:
            _require(model, prompt, asked.api)
        asked_at = timestamp_of(request_id)
        price = self._prices.price(model.id, tier, asked_at)
        wanted = self._estimate(prompt, model, price, headers.cost_cap())
        chain = self._chain(prompt, granted, parsed)
        in_body = prompt.cache_key or prompt.conversation
        session = headers.session() or in_body
        return InferenceRequest(
            id=request_id,
            account=grant.account,
            key=grant.key,
            model=model,
            body=prompt.fields,
            is_stream=prompt.is_stream,
            cache_salt=grant.cache_salt,
            api=asked.api,
            session=headers.session_label() if headers.session() else label(in_body),
            wants_usage=prompt.wants_usage or route.is_run,
            wants_continuous_usage=prompt.wants_continuous_usage,
            choices=prompt.choices,
            reject_if_busy=_rejects_if_busy(route, headers, prompt),
            caller_request_id=headers.caller_request_id(),
            asked_at=asked_at,
            tier=tier,
            price=price,
            workflow=headers.workflow(prompt.workflow),
            prompt_family=self._family(prompt, asked.api, parsed),
            client_retry=headers.client_retry(),
            prompt_tokens_estimate=wanted.prompt_tokens,
            output_tokens_max=wanted.output_tokens,
            on_outage_refuse=grant.on_outage_refuse,
            chain=chain,
            # The whole name: its label is cut, and two sessions may have the same.
            session_key=digest(session, seed) if session else chain.opening,
            is_affinity_strict=grant.is_affinity_strict,
        )

    def _split(self, route: Route, key: Key, body: bytes) -> ParsedBody:
        if route.api is not Api.CHAT:
            return ParsedBody(read_fields(body))
        account = None if key.account is None else key.account.id
        if route.is_run and route.model is None:
            # The chat is one level down: messages beside it are not its prompt.
            account = None
        return self._prompts.read(account, body)

    def _read(self, asked: Asked, parsed: ParsedBody | None) -> PromptRequest:
        check_names(asked.fields)
        if asked.api is not Api.CHAT:
            if asked.api is Api.RESPONSES and asked.model.family is Family.RESPONSES:
                drop_namespaces(asked.fields)
            return READERS[asked.api](asked.fields, self._media_hosts)
        fields = asked.fields
        if asked.route.is_run:
            fields = chat_fields(fields, asked.model)
        if parsed is None:
            return read_chat(fields, self._media_hosts)
        return read_chat(fields, self._media_hosts, parsed)

    def _require_queue(self, model: Model, wish: Wish, api: Api) -> None:
        if not self._is_flex_on:
            raise InvalidRequest("The asynchronous API is not available on this gateway.")
        if api is not Api.CHAT:
            raise InvalidRequest(
                "Only chat requests can be queued: send this one without asking for that, or as"
                " chat.",
                param=_WISH_PARAM.get(wish),
            )
        if not model.has(Capability.ASYNC_QUEUE):
            name = Capability.ASYNC_QUEUE
            raise MissingCapability(
                f"{model.id} does not have the capability `{name}`.", param=_WISH_PARAM.get(wish)
            )

    def _chain(
        self, prompt: PromptRequest, granted: Granted, parsed: ParsedBody | None
    ) -> PromptChain:
        root = granted.root
        image_bytes = int(granted.image_tokens * self._bytes_per_token)
        before = None if parsed is None else parsed.known
        chain = prompt_chain(
            root, prompt.fields, prompt.messages, prompt.media, image_bytes, before
        )
        if parsed is not None:
            self._prompts.learned(parsed, root, chain, prompt.media, image_bytes)
        return chain.bounded()

    def _family(self, prompt: PromptRequest, api: Api, parsed: ParsedBody | None) -> str:
        if api not in _CONVERSATIONS:
            return ""
        return self._prompts.family(prompt.fields, prompt.messages, parsed)

    def _estimate(
        self, prompt: PromptRequest, model: Model, price: Price, cap: str | None
    ) -> Estimate:
        wanted = estimate(prompt, model, self._bytes_per_token)
        if cap is None:
            return wanted
        fitting = within_cap(wanted, price, cap, may_shorten=prompt.max_tokens is None)
        if fitting is not wanted:
            prompt.fields[prompt.max_tokens_field] = Raw(b"%d" % fitting.max_tokens)
        return fitting

    def _find_model(self, route: Route, fields: Fields) -> Model:
        if route.model is not None:
            return self._catalogue.find(route.model)
        name = MODEL.read(fields)
        if not name:
            raise InvalidRequest("`model` is required.", param="model")
        return self._catalogue.find(name)


def _taken_out(asked: Asked) -> ParsedBody | None:
    """The body as it was split. `asked` lives as long as the request: it must not hold the body."""
    parsed = asked.parsed
    asked.parsed = None
    # In other APIs nobody has checked the messages, so nothing may be learned of them.
    return parsed if asked.api is Api.CHAT else None


def _unwrapped(route: Route, fields: Fields) -> Fields:
    """`POST /ai/run` without a model in its path carries the input one level down."""
    if route.model is not None:
        return fields
    raw = fields.get("input")
    if raw is None:
        raise InvalidRequest("`input` is required beside `model`.", param="input")
    try:
        inner = _input_decoder.decode(raw)
    except msgspec.DecodeError as bad:
        raise InvalidRequest(f"`input`: {bad}", param="input") from None
    if "options" in fields:
        inner.setdefault("options", fields["options"])
    return inner


def _require(model: Model, prompt: PromptRequest, api: Api) -> None:
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
_WISH_PARAM: Final = {Wish.QUEUE: "queueRequest", Wish.IN_PLACE: "service_tier"}


def _rejects_if_busy(route: Route, headers: CallerHeaders, prompt: PromptRequest) -> bool:
    """Options come three ways: in the body, in the query, in a header."""
    query = route.query
    return (
        prompt.rejects_if_busy
        or (bool(query) and query.get("rejectIfBusy", "").lower() in TRUE)
        or headers.rejects_if_busy()
    )
