"""Runs inference requests in the scripted engine, from the body to the answer's last byte."""

import asyncio
from typing import Any

from penstock.clock import Clock, new_id
from penstock.testing.scripted_engine.answer_delivery import (
    GARBAGE_JSON,
    AnswerDelivery,
    AnswerEndedError,
)
from penstock.testing.scripted_engine.answer_shape import AnswerHead, AnswerShape
from penstock.testing.scripted_engine.answer_usage import AnswerUsage
from penstock.testing.scripted_engine.engine_apis import EngineApi
from penstock.testing.scripted_engine.engine_log import EngineLog, Entry
from penstock.testing.scripted_engine.engine_options import EngineOptions
from penstock.testing.scripted_engine.engine_request import (
    EngineRequest,
    RequestRefusedError,
    Served,
)
from penstock.testing.scripted_engine.http_connection import HttpConnection, HttpRequest
from penstock.testing.scripted_engine.prefix_blocks import (
    TOKENS_PER_BLOCK,
    PrefixBlocks,
    count_tokens,
)
from penstock.testing.scripted_engine.response_head import ResponseHead
from penstock.testing.scripted_engine.script import EngineControl, Script, ScriptError, read_script
from penstock.testing.scripted_engine.scripted_answers import ScriptedAnswer, compose
from penstock.testing.scripted_engine.slots import QueueFullError, Slots

_LOAD_HEADER = "endpoint-load-metrics-format"
_PRIORITY_HEADER = "x-vllm-priority"


class Inference:
    """Runs requests in slots, and keeps the request log and the prefix cache."""

    def __init__(self, options: EngineOptions, clock: Clock, heads: ResponseHead) -> None:
        self._options = options
        self._clock = clock
        self._served = Served(options.model, options.max_model_len)
        self._heads = heads
        self.log = EngineLog(options.log_limit, options.requests_file)
        self.slots = Slots(options.slots, options.queue_limit)
        self.blocks = PrefixBlocks(options.kv_blocks)
        self.tokens_held = 0
        self.control = EngineControl()
        # Prefill runs one prompt at a time, because all prompts share the engine's compute.
        self._reading = asyncio.Lock()
        given = {"interval": options.interval, "sentence": options.sentence}
        self._defaults: dict[str, Any] = {name: value for name, value in given.items() if value}
        self._defaults_left: int | None = None

    def set_control(self, control: EngineControl, defaults: dict[str, Any]) -> None:
        """Set the control and the script of every later request, or of the next `times`."""
        self.control = control
        self._defaults = defaults
        self._defaults_left = control.times

    @property
    def kv_usage(self) -> float:
        """Return the share of the cache that running requests hold."""
        return min(self.tokens_held / (self.blocks.capacity * TOKENS_PER_BLOCK), 1.0)

    async def run(self, http: HttpRequest, connection: HttpConnection, api: EngineApi) -> None:
        asked_id = http.headers.get("x-request-id") if api.heeds_request_id else None
        request_id = api.id_prefix + (asked_id or _hex_id())
        entry = Entry(id=request_id, headers=http.headers, body=http.body)
        self.log.open(entry)
        outcome = "aborted"
        try:
            await self._answer(http, connection, entry, api)
            outcome = "finished"
        except AnswerEndedError:
            outcome = "faulted"
        except RequestRefusedError as refusal:
            outcome = "refused"
            body = api.refusal(refusal)
            connection.write(self._heads.json(refusal.status, len(body), refusal.headers) + body)
        finally:
            self.log.close(entry, outcome)

    async def _answer(
        self, http: HttpRequest, connection: HttpConnection, entry: Entry, api: EngineApi
    ) -> None:
        request = api.read(http.body, self._served)
        script = self._script_for(request)
        delivery = AnswerDelivery(connection, script, api.fault)
        await delivery.before_head()
        self._refuse(script)
        if script.garbage_json:
            await delivery.send_body(self._heads.json(200, len(GARBAGE_JSON)), GARBAGE_JSON)
            raise AnswerEndedError
        if request.stream:
            await delivery.send_head(self._heads.stream(script.headers))
        await self.slots.acquire(_priority(http, request))
        entry.outcome = "running"
        tokens = request.prompt_tokens
        self.tokens_held += tokens
        try:
            if request.stream:
                await self._stream(request, script, delivery, entry, api)
            else:
                body = await self._whole(request, script, entry, api)
                headers = dict(script.headers)
                if api.tells_load and http.headers.get(_LOAD_HEADER, "").lower() == "json":
                    headers["endpoint-load-metrics"] = self._load()
                await delivery.send_body(self._heads.json(200, len(body), headers), body)
        finally:
            self.tokens_held -= tokens
            self.slots.release()

    def _script_for(self, request: EngineRequest) -> Script:
        defaults = self._defaults
        if self._defaults_left is not None:
            if self._defaults_left <= 0:
                defaults = {}
            self._defaults_left -= 1
        try:
            return read_script(defaults, request.last_user_text)
        except ScriptError as error:
            raise RequestRefusedError(400, f"The script cannot be read: {error}") from error

    def _refuse(self, script: Script) -> None:
        if script.status is not None:
            raise RequestRefusedError(script.status, script.message, headers=script.headers)
        try:
            self.slots.check_room()
        except QueueFullError as error:
            raise RequestRefusedError(503) from error

    async def _stream(
        self,
        request: EngineRequest,
        script: Script,
        delivery: AnswerDelivery,
        entry: Entry,
        api: EngineApi,
    ) -> None:
        await delivery.before_first()
        answers = _composed(request, script)
        shape = await self._shape(request, script, entry, api)
        for made, event in shape.events(answers):
            entry.completion_tokens = made
            await delivery.send_event(event)
        entry.completion_tokens = sum(answer.completion_tokens for answer in answers)
        await delivery.finish(shape.ending())
        self._remember(request, answers)

    async def _whole(
        self, request: EngineRequest, script: Script, entry: Entry, api: EngineApi
    ) -> bytes:
        answers = _composed(request, script)
        shape = await self._shape(request, script, entry, api)
        total = sum(answer.completion_tokens for answer in answers)
        if script.interval:
            for made in range(total):
                entry.completion_tokens = made
                await asyncio.sleep(script.interval)
        entry.completion_tokens = total
        self._remember(request, answers)
        return shape.whole(answers)

    async def _shape(
        self, request: EngineRequest, script: Script, entry: Entry, api: EngineApi
    ) -> AnswerShape:
        head = AnswerHead(request.id or entry.id, int(self._clock.now()), self._options.model)
        return api.shape(request, head, await self._read_prompt(request, script), _hex_id)

    async def _read_prompt(self, request: EngineRequest, script: Script) -> AnswerUsage:
        """Return the usage, after the time that prefilling the uncached tokens takes."""
        rate = self._options.prefill_rate
        if not rate:
            return self._usage(request, script)
        async with self._reading:
            usage = self._usage(request, script)
            await asyncio.sleep((usage.prompt_tokens - usage.cached_tokens) / rate)
        return usage

    def _usage(self, request: EngineRequest, script: Script) -> AnswerUsage:
        cached = created = 0
        for prompt in request.prompts:
            held = self.blocks.admit(prompt, request.cache_salt)
            full = count_tokens(prompt) // TOKENS_PER_BLOCK * TOKENS_PER_BLOCK
            cached += held
            created += max(full - held, 0)
        return AnswerUsage(
            prompt_tokens=request.prompt_tokens,
            cached_tokens=cached,
            created_tokens=created,
            overrides=script.lie_usage,
            is_told=not script.no_usage,
        )

    def _remember(self, request: EngineRequest, answers: list[ScriptedAnswer]) -> None:
        for index, answer in enumerate(answers[:: request.n or 1]):
            text = "".join(answer.pieces).encode()
            self.blocks.extend(request.prompts[index] + text, request.cache_salt)

    def _load(self) -> str:
        waiting, usage = float(self.slots.waiting), self.kv_usage
        metrics = f'"num_requests_waiting": {waiting}, "kv_cache_usage_perc": {usage}'
        return f'JSON {{"named_metrics": {{{metrics}}}}}'


def _composed(request: EngineRequest, script: Script) -> list[ScriptedAnswer]:
    choices = len(request.prompts) * request.n
    return [compose(request, script, index) for index in range(choices)]


def _priority(http: HttpRequest, request: EngineRequest) -> int:
    """Return the header's priority or else the body's, as vLLM does; ignore a non-number."""
    told = http.headers.get(_PRIORITY_HEADER, "")
    try:
        return int(told) if told else request.priority
    except ValueError:
        return request.priority


def _hex_id() -> str:
    return new_id().replace("-", "")[-16:]
