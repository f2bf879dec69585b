"""Builds an InferenceRequest from headers and a body, in five steps.

Split the body into fields; identify key, account and model; rewrite; read the prompt; chain its
messages for routing. All steps are synchronous, except that `authenticate` looks an unknown key up
in Postgres once before the request is refused.
"""

from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

from penstock.catalogue import Catalogue
from penstock.clock import timestamp_of
from penstock.contracts.current import CurrentContracts
from penstock.errors import InvalidRequest, MissingCapability, Refused, Unauthenticated
from penstock.intake.apis import READERS, api_of
from penstock.intake.caller_headers import TRUE, CallerHeaders
from penstock.intake.capabilities import require_capabilities
from penstock.intake.contracted import (
    asked_of,
    cap_prompt,
    cap_response,
    cap_turn,
    check_prompt,
    check_workflow,
    decision_of,
)
from penstock.intake.contracted_rewrite import rewrite_by_contract
from penstock.intake.contracted_tools import judge_offers, terms_of
from penstock.intake.estimate import Estimate, estimate, within_cap
from penstock.intake.fallback import is_cheaper, may_fall_back, takes_as_is
from penstock.intake.grant_cache import CachedGrant, GrantCache
from penstock.intake.large_reading import INLINE_BYTES_MAX, ReadingThread
from penstock.intake.nested_input import unwrapped
from penstock.intake.opened_request import Delivery, OpenedRequest, delivery_of
from penstock.intake.policies import IntakePolicies
from penstock.intake.request_labels import labels_of, session_key_of
from penstock.intake.rewriting import rewrite
from penstock.intake.routes import RequestRoute, Wanted
from penstock.intake.settings import IntakeSettings
from penstock.intake.storage_policy import StoragePolicy
from penstock.metering import PriceBook
from penstock.policy import KeyMirror
from penstock.records.account import AccountId, Key
from penstock.records.model import Capability, Family, Model
from penstock.records.price import Price, Tier
from penstock.records.prompt_chain import PromptChain
from penstock.records.request import (
    Api,
    InferenceRequest,
    RequestId,
    RequestPlacement,
    RequestPrompt,
    RequestTerms,
)
from penstock.wire.apis.chat import read_chat
from penstock.wire.apis.hosted_tools import drop_namespaces
from penstock.wire.apis.prompt_request import MODEL, PromptRequest
from penstock.wire.apis.workers_ai import chat_fields
from penstock.wire.json_body import Fields, check_names, read_fields
from penstock.wire.prompt.chain import prompt_chain
from penstock.wire.prompt.parsed_body import ParsedBody
from penstock.wire.prompt.reader import PromptReader

if TYPE_CHECKING:
    from collections.abc import Callable

# Requests of these APIs have messages, and so a prompt family; completions have none.
_CONVERSATIONS: Final = frozenset({Api.CHAT, Api.MESSAGES, Api.RESPONSES})
T = TypeVar("T")


class RequestReader:
    """Reads requests with the catalogue and the keys; remembers the prompts of earlier turns."""

    def __init__(
        self,
        catalogue: Catalogue,
        keys: KeyMirror,
        prices: PriceBook,
        settings: IntakeSettings,
        thread: ReadingThread | None = None,
        policies: IntakePolicies | None = None,
    ) -> None:
        """With a thread, large bodies are read there, by a second reader.

        Two threads must never share a memory of prompts.
        """
        self._policies = policies or IntakePolicies(StoragePolicy(), CurrentContracts())
        self._contracts = self._policies.contracts
        self._large_bodies = thread
        self._in_thread = self
        if thread is not None:
            self._in_thread = RequestReader(
                catalogue, keys, prices, settings, policies=self._policies
            )
        self._catalogue = catalogue
        self._keys = keys
        self._grants = GrantCache(keys)
        self._prices = prices
        self._media_hosts = frozenset(settings.media_hosts)
        self._bytes_per_token = settings.prompt_bytes_per_token
        self._is_flex_on = settings.flex
        self._has_server_tools = settings.server_tools
        self._prompts = PromptReader()

    async def read_by_size(
        self,
        body_bytes: int,
        read: "Callable[[RequestReader], T]",
        inline_bytes_max: int = INLINE_BYTES_MAX,
    ) -> T:
        """Call `read` at once for a short body, and in the thread for a large one."""
        if self._large_bodies is None or body_bytes <= inline_bytes_max:
            return read(self)
        return await self._large_bodies.run(partial(read, self._in_thread))

    def find_key(self, headers: CallerHeaders) -> Key | None:
        """Return the caller's key if this worker knows it; `authenticate` also asks Postgres."""
        return self._keys.find_hashed(headers.secret_sha256())

    def salt_of(self, account: AccountId) -> str:
        """Return the secret that marks what belongs to an account, such as its compactions."""
        return self._keys.salt_for(account)

    def find_account(self, headers: CallerHeaders) -> str:
        """Return the account of the caller's key if this worker knows the key, else ""."""
        try:
            key = self.find_key(headers)
        except Unauthenticated:
            return ""
        return "" if key is None or key.account is None else key.account.id

    async def authenticate(self, headers: CallerHeaders) -> Key:
        return self.find_key(headers) or await self._keys.look_up(headers.secret())

    def read(
        self,
        request_id: RequestId,
        route: RequestRoute,
        headers: CallerHeaders,
        key: Key,
        body: bytes,
    ) -> InferenceRequest:
        """Read a live request, whatever delivery it asks for."""
        return self.read_prompt(request_id, headers, self.open(route, headers, key, body))

    def open(
        self, route: RequestRoute, headers: CallerHeaders, key: Key, body: bytes
    ) -> OpenedRequest:
        """Split the body, identify the request and rewrite it; its prompt is not read yet."""
        headers.refuse_encoding()
        parsed = self._split(route, key, body)
        opened = self._identify(route, headers, key, parsed, len(body))
        if opened.contract is not None and opened.api is Api.RESPONSES:
            # Before tools that run here become functions; others are judged with the prompt.
            judge_offers(opened)
        rewritten = rewrite(
            opened,
            self._media_hosts,
            self._policies.storage,
            has_server_tools=self._has_server_tools,
        )
        if rewritten.tools is not None and rewritten.contract is not None:
            cap_turn(rewritten, rewritten.contract)
        return rewritten

    def read_prompt(
        self,
        request_id: RequestId,
        headers: CallerHeaders,
        opened: OpenedRequest,
        tier: Tier = Tier.NOW,
    ) -> InferenceRequest:
        """Read and chain the prompt of an opened request, priced by its tier."""
        contract = opened.contract
        if contract is not None:
            rewrite_by_contract(opened, contract, self._policies.outputs)
            if may_fall_back(contract, headers):
                opened.unread = dict(opened.fields)
        parsed = _taken_out(opened)
        prompt = self._read(opened, parsed)
        if prompt.needs:
            require_capabilities(opened.model, prompt, opened.api)
        if contract is not None:
            cap_prompt(prompt, opened.model, contract)
        # Before the chain, which remembers the prompt: a cost cap may refuse the request here.
        terms = self._terms(request_id, headers, opened, prompt, tier)
        chain = self._chain(prompt, opened.granted, parsed)
        grant = opened.grant
        return InferenceRequest(
            id=request_id,
            account=grant.account,
            key=grant.key,
            model=opened.model,
            api=opened.api,
            tool_terms=None if contract is None else terms_of(opened),
            labels=labels_of(headers, opened, prompt, self._family(prompt, opened.api, parsed)),
            terms=terms,
            prompt=RequestPrompt(
                body=prompt.fields,
                is_stream=prompt.is_stream,
                cache_salt=grant.cache_salt,
                chain=chain,
                choices=prompt.choices,
                wants_usage=prompt.wants_usage or opened.route.is_run,
                wants_continuous_usage=prompt.wants_continuous_usage,
            ),
            placement=RequestPlacement(
                session_key=session_key_of(headers, opened, prompt, chain),
                is_affinity_strict=grant.is_affinity_strict,
            ),
            decisions=() if contract is None else contract.logged(),
        )

    def read_fallback(
        self,
        request: InferenceRequest,
        headers: CallerHeaders,
        opened: OpenedRequest,
        reason: str,
    ) -> tuple[OpenedRequest, InferenceRequest] | None:
        """Read a request anew for its contract's cheaper model; None if that cannot serve it."""
        assert opened.contract is not None, "a contract has the cheaper model"
        fallback = opened.contract.contract.fallback
        if fallback is None or not takes_as_is(opened, fallback.model):
            return None
        try:
            key, account = opened.granted.key, opened.route.account
            other = opened.fallen_back(self._grants.find(key, fallback.model, account), reason)
            read = self.read_prompt(request.id, headers, other, request.terms.tier)
        except Refused:
            # It lacks a capability, or is another account's.
            return None
        return (other, read) if is_cheaper(read, request) else None

    def _split(self, route: RequestRoute, key: Key, body: bytes) -> ParsedBody:
        if route.api is not Api.CHAT:
            return ParsedBody(read_fields(body))
        account = None if key.account is None else key.account.id
        if route.is_run and route.model is None:
            # The chat is nested in `input`: messages beside that are not its prompt.
            account = None
        return self._prompts.read(account, body)

    def _identify(
        self,
        route: RequestRoute,
        headers: CallerHeaders,
        key: Key,
        parsed: ParsedBody,
        body_bytes: int,
    ) -> OpenedRequest:
        """Find the model, the grant and the API of a request, and how it is to be delivered."""
        fields = parsed.fields
        contracts = self._contracts.in_force
        decision = inner = None
        if contracts is None:
            model = self._catalogue.find(self._model_name(route, fields))
        else:
            inner = unwrapped(route, fields) if route.is_run else fields
            name = self._model_name(route, fields)
            asked = asked_of(route, headers, key, inner, name)
            decision, model = decision_of(contracts, asked, inner, self._catalogue)
        granted = self._grants.find(key, model, route.account)
        if inner is not None:
            fields = inner
        elif route.is_run:
            fields = unwrapped(route, fields)
        if contracts is None and granted.grant.workflow:
            check_workflow(headers, key, fields)
        api = api_of(route, model, fields)
        delivery = delivery_of(route, headers, fields)
        if delivery is not None:
            if api is not Api.CHAT:
                raise InvalidRequest(
                    "Only chat requests can be queued: send this one without asking for that, or"
                    " as chat.",
                    param=_DELIVERY_PARAM.get(delivery),
                )
            self.require_queue(model, _DELIVERY_PARAM.get(delivery))
        opened = OpenedRequest(route, granted, fields, api, body_bytes, delivery)
        if fields is parsed.fields and parsed.messages is not None:
            # Not for a chat nested in `input`, which has its own messages.
            opened.parsed = parsed
        if decision is not None:
            opened.contract = decision
            cap_response(opened, decision)
        return opened

    def _read(self, opened: OpenedRequest, parsed: ParsedBody | None) -> PromptRequest:
        check_names(opened.fields)
        if opened.api is not Api.CHAT:
            if opened.api is Api.RESPONSES and opened.model.family is Family.RESPONSES:
                drop_namespaces(opened.fields)
            return READERS[opened.api](opened.fields, self._media_hosts)
        fields = opened.fields
        if opened.route.is_run:
            fields = chat_fields(fields, opened.model)
        if parsed is None:
            return read_chat(fields, self._media_hosts)
        return read_chat(fields, self._media_hosts, parsed)

    def _terms(
        self,
        request_id: RequestId,
        headers: CallerHeaders,
        opened: OpenedRequest,
        prompt: PromptRequest,
        tier: Tier,
    ) -> RequestTerms:
        asked_at = timestamp_of(request_id)
        price = self._prices.price(opened.model.id, tier, asked_at)
        wanted = self._estimate(prompt, opened, price, headers.cost_cap())
        # Counting burns nothing, and agents count to know when to shorten a conversation.
        if opened.contract is not None and opened.route.wanted is not Wanted.COUNT:
            check_prompt(wanted.prompt_tokens, opened.contract)
        return RequestTerms(
            asked_at=asked_at,
            tier=tier,
            price=price,
            prompt_tokens_estimate=wanted.prompt_tokens,
            output_tokens_max=wanted.output_tokens,
            on_outage_refuse=opened.grant.on_outage_refuse,
            reject_if_busy=_rejects_if_busy(opened.route, headers, prompt),
        )

    def require_queue(self, model: Model, param: str | None) -> None:
        """Refuse a request that would have to be queued, where that is not possible."""
        if not self._is_flex_on:
            raise InvalidRequest("The asynchronous API is not available on this gateway.")
        if not model.has(Capability.ASYNC_QUEUE):
            name = Capability.ASYNC_QUEUE
            raise MissingCapability(
                f"{model.id} does not have the capability `{name}`.", param=param
            )

    def _chain(
        self, prompt: PromptRequest, granted: CachedGrant, parsed: ParsedBody | None
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
        self, prompt: PromptRequest, opened: OpenedRequest, price: Price, cap: str | None
    ) -> Estimate:
        wanted = estimate(prompt, opened.model, self._bytes_per_token)
        if cap is None:
            return wanted
        fitting = within_cap(
            wanted, price, cap, may_shorten=prompt.may_shorten, spent_nanousd=opened.spent_nanousd
        )
        if fitting is not wanted:
            prompt.bound_tokens(fitting.max_tokens)
        return fitting

    def _model_name(self, route: RequestRoute, fields: Fields) -> str:
        if route.model is not None:
            return route.model
        name = MODEL.read(fields)
        if not name:
            raise InvalidRequest("`model` is required.", param="model")
        return name


def _taken_out(opened: OpenedRequest) -> ParsedBody | None:
    """Take the split body out: `opened` lives as long as the request, and must not hold it."""
    parsed = opened.parsed
    opened.parsed = None
    # Other APIs' messages are not checked, so nothing may be learned from them.
    return parsed if opened.api is Api.CHAT else None


_DELIVERY_PARAM: Final = {Delivery.QUEUE: "queueRequest", Delivery.IN_PLACE: "service_tier"}


def _rejects_if_busy(route: RequestRoute, headers: CallerHeaders, prompt: PromptRequest) -> bool:
    """Return whether the body, the query or a header sets this option."""
    query = route.query
    return (
        prompt.rejects_if_busy
        or (bool(query) and query.get("rejectIfBusy", "").lower() in TRUE)
        or headers.rejects_if_busy()
    )
