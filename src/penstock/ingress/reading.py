"""From headers and body to an InferenceRequest: who, which model, what of it we must know.

Synchronous but for an unknown key, which is looked up once before it is refused.
"""

from typing import Final

import msgspec
from msgspec import Raw

from penstock.catalogue import Catalogue
from penstock.clock import timestamp_of
from penstock.errors import InvalidRequest, MissingCapability, Unauthenticated
from penstock.ingress.apis import READERS, api_of
from penstock.ingress.asked import Asked, Wish, wish_of
from penstock.ingress.estimate import Estimate, estimate, within_cap
from penstock.ingress.labels import retry_number, workflow_label
from penstock.ingress.routes import Route, Surface
from penstock.ingress.settings import Settings
from penstock.metering import PriceBook
from penstock.policy import KeyMirror, authorize
from penstock.records.account import Key
from penstock.records.model import Capability, Family, Model
from penstock.records.price import Price, Tier
from penstock.records.prompt_chain import PromptChain
from penstock.records.request import Api, InferenceRequest, RequestId
from penstock.wire.chat import read_chat
from penstock.wire.hosted_tools import drop_namespaces
from penstock.wire.json_body import Fields
from penstock.wire.large_body import LARGE_BYTES, ParsedBody, read_body
from penstock.wire.prefer import Preference, read_prefer
from penstock.wire.prompt_chain import digest, prompt_chain
from penstock.wire.prompt_learning import learn
from penstock.wire.prompt_memory import BodyDigests, PromptMemory
from penstock.wire.prompt_request import MODEL, PromptRequest
from penstock.wire.workers_ai import chat_fields

_BEARER: Final = b"bearer "
_LABEL_CHARS_MAX: Final = 256
_SESSION_HEADERS: Final = (b"x-session-affinity", b"x-session-id", b"session-id")
_TRUE: Final = ("true", "1")

_input_decoder = msgspec.json.Decoder(Fields)


class CallerHeaders:
    """The few request headers that we read, by name; the last one of a name counts."""

    __slots__ = ("_by_name",)

    def __init__(self, headers: list[tuple[bytes, bytes]]) -> None:
        self._by_name = dict(headers)

    def secret(self) -> bytes:
        """The API key: `Authorization: Bearer`, or `x-api-key`."""
        value = self._by_name.get(b"authorization", b"")
        if value[:7].lower() == _BEARER:
            secret = value[7:].strip()
        else:
            secret = self._by_name.get(b"x-api-key", b"")
        if not secret:
            raise Unauthenticated
        return secret

    def session(self) -> bytes:
        """The session's name, as the caller wrote it."""
        for name in _SESSION_HEADERS:
            value = self._by_name.get(name)
            if value:
                return value
        return b""

    def caller_request_id(self) -> str:
        value = self._by_name.get(b"x-request-id")
        return _label(value) if value else ""

    def refuse_encoding(self) -> None:
        encoding = self._by_name.get(b"content-encoding")
        if encoding is not None and encoding.lower() != b"identity":
            raise InvalidRequest(
                f"Content encoding `{_label(encoding)}` is not supported: send plain JSON."
            )

    def workflow(self, in_body: str) -> str:
        ours = self._by_name.get(b"x-penstock-workflow")
        theirs = self._by_name.get(b"cf-aig-metadata")
        if not (ours or theirs or in_body):
            return ""
        return workflow_label(ours or b"", theirs or b"", in_body)

    def client_retry(self) -> int | None:
        value = self._by_name.get(b"x-stainless-retry-count")
        return retry_number(value) if value else None

    def cost_cap(self) -> str | None:
        value = self._by_name.get(b"x-penstock-max-cost-usd")
        return None if value is None else _label(value)

    def wants_cost(self) -> bool:
        return self._by_name.get(b"x-penstock-cost", b"") in (b"1", b"true")

    def rejects_if_busy(self) -> bool:
        value = self._by_name.get(b"x-penstock-reject-if-busy")
        return _label(value).lower() in _TRUE if value else False

    def wants_task(self) -> bool:
        value = self._by_name.get(b"cf-aig-async")
        return _label(value).lower() in _TRUE if value else False

    @property
    def has_preference(self) -> bool:
        return b"prefer" in self._by_name

    def preference(self) -> Preference | None:
        value = self._by_name.get(b"prefer")
        return read_prefer(value) if value else None

    def idempotency_key(self) -> str | None:
        """Whole: two keys that begin alike are not the same."""
        value = self._by_name.get(b"idempotency-key")
        if not value:
            return None
        if len(value) > _LABEL_CHARS_MAX:
            raise InvalidRequest(
                f"`Idempotency-Key` must be at most {_LABEL_CHARS_MAX} characters."
            )
        return value.decode("latin-1")


class RequestReader:
    """Catalogue and keys, joined for reading. Of its own it has the prompts of earlier turns."""

    def __init__(
        self,
        catalogue: Catalogue,
        keys: KeyMirror,
        prices: PriceBook,
        settings: Settings,
    ) -> None:
        self._catalogue = catalogue
        self._keys = keys
        self._prices = prices
        self._media_hosts = frozenset(settings.media_hosts)
        self._bytes_per_token = settings.prompt_bytes_per_token
        self._is_flex_on = settings.flex
        self._memory = PromptMemory()

    def known_key(self, headers: CallerHeaders) -> Key | None:
        """Without waiting; None when it must be looked up."""
        return self._keys.find(headers.secret())

    async def authenticate(self, headers: CallerHeaders) -> Key:
        secret = headers.secret()
        return self._keys.find(secret) or await self._keys.look_up(secret)

    def read(
        self, request_id: RequestId, route: Route, headers: CallerHeaders, key: Key, body: bytes
    ) -> InferenceRequest:
        """A request that is wanted now, whatever it says of later."""
        return self.prompt(request_id, headers, self.open(route, headers, key, body))

    def open(self, route: Route, headers: CallerHeaders, key: Key, body: bytes) -> Asked:
        """Whose it is, for which model, and whether it is wanted now; its prompt is not read."""
        headers.refuse_encoding()
        digests = self._digests(route, key, body)
        parsed = read_body(body, None if digests is None else self._memory.find(digests))
        fields = parsed.fields
        model = self._find_model(route, fields)
        salt = self._keys.salt_for(key.account.id) if key.account is not None else ""
        grant = authorize(key, model, salt, route.account)
        assert key.account is not None, "authorize grants nothing to a key without one"
        if route.surface is Surface.WORKERS_RUN:
            fields = _unwrapped(route, fields)
        api = api_of(route, model, fields)
        wish = wish_of(route, headers, fields)
        if wish is not None:
            self._require_queue(model, wish, api)
        asked = Asked(route, model, grant, key.account, fields, api, len(body), wish)
        if fields is parsed.fields and parsed.messages is not None:
            # What came one level down has its own messages, whatever stands beside it.
            asked.parsed, asked.digests = parsed, digests
        return asked

    def prompt(
        self, request_id: RequestId, headers: CallerHeaders, asked: Asked, tier: Tier = Tier.NOW
    ) -> InferenceRequest:
        """The prompt itself, priced by how soon it is wanted."""
        route, model, grant = asked.route, asked.model, asked.grant
        parsed, digests = _taken_out(asked)
        prompt = self._read(asked, parsed)
        _require(model, prompt, asked.api)
        asked_at = timestamp_of(request_id)
        price = self._prices.price(model.id, tier, asked_at)
        wanted = self._estimate(prompt, model, price, headers.cost_cap())
        seed = digest(grant.cache_salt)
        chain = self._chain(prompt, model, seed, parsed, digests)
        session = headers.session() or prompt.cache_key or prompt.conversation
        return InferenceRequest(
            id=request_id,
            account=grant.account,
            key=grant.key,
            model=model,
            body=prompt.fields,
            is_stream=prompt.is_stream,
            cache_salt=grant.cache_salt,
            api=asked.api,
            session=_label(session) if session else "",
            wants_usage=prompt.wants_usage or route.surface is Surface.WORKERS_RUN,
            wants_continuous_usage=prompt.wants_continuous_usage,
            choices=prompt.choices,
            reject_if_busy=_rejects_if_busy(route, headers, prompt),
            caller_request_id=headers.caller_request_id(),
            asked_at=asked_at,
            tier=tier,
            price=price,
            workflow=headers.workflow(prompt.workflow),
            prompt_family=prompt.prompt_family,
            client_retry=headers.client_retry(),
            prompt_tokens_estimate=wanted.prompt_tokens,
            output_tokens_max=wanted.output_tokens,
            on_outage_refuse=grant.on_outage_refuse,
            chain=chain,
            # The whole name: its label is cut, and two sessions may have the same.
            session_key=digest(session, seed) if session else chain.opening,
            is_affinity_strict=grant.is_affinity_strict,
        )

    def _digests(self, route: Route, key: Key, body: bytes) -> BodyDigests | None:
        """None for a body that cannot be a known prompt."""
        if len(body) < LARGE_BYTES or route.api is not Api.CHAT or key.account is None:
            return None
        if route.surface is Surface.WORKERS_RUN and route.model is None:
            return None
        return self._memory.digests(key.account.id, body)

    def _read(self, asked: Asked, parsed: ParsedBody | None) -> PromptRequest:
        if asked.api is not Api.CHAT:
            if asked.api is Api.RESPONSES and asked.model.family is Family.RESPONSES:
                drop_namespaces(asked.fields)
            return READERS[asked.api](asked.fields, self._media_hosts)
        fields = asked.fields
        if asked.route.surface is Surface.WORKERS_RUN:
            fields = chat_fields(fields, asked.model)
        if parsed is None:
            return read_chat(fields, self._media_hosts)
        return read_chat(fields, self._media_hosts, parsed.messages, parsed.known)

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
        self,
        prompt: PromptRequest,
        model: Model,
        seed: int,
        parsed: ParsedBody | None,
        digests: BodyDigests | None,
    ) -> PromptChain:
        root = digest(model.id, seed)
        image_bytes = int(model.image_tokens_max * self._bytes_per_token)
        before = None if parsed is None else parsed.known
        chain = prompt_chain(
            root, prompt.fields, prompt.messages, prompt.media, image_bytes, before
        )
        if parsed is not None and digests is not None:
            for known in learn(parsed, root, chain, prompt.media, image_bytes):
                self._memory.keep(digests, known)
        return chain

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


def _taken_out(asked: Asked) -> tuple[ParsedBody | None, BodyDigests | None]:
    """What is asked is held as long as the request is open, and this may be long."""
    parsed, digests = asked.parsed, asked.digests
    asked.parsed = asked.digests = None
    # What is no chat has not had its messages checked, so nothing may be learned of them.
    return (parsed, digests) if asked.api is Api.CHAT else (None, None)


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
        bool(prompt.options.reject_if_busy)
        or (bool(query) and query.get("rejectIfBusy", "").lower() in _TRUE)
        or headers.rejects_if_busy()
    )


def _label(value: bytes | str) -> str:
    """A caller's own text, cut and made safe to write back and to log."""
    start = value[:_LABEL_CHARS_MAX]
    text = start.decode("latin-1") if isinstance(start, bytes) else start
    return text if text.isprintable() else "".join(c for c in text if c.isprintable())
