"""One inference request in the scripted engine: from its body to the last byte of its answer."""

import asyncio
from typing import Any

from penstock.clock import Clock, new_id
from penstock.testing.answer_delivery import GARBAGE_JSON, AnswerEndedError, Delivery
from penstock.testing.chat_request import ChatRequest, RequestRefusedError, read_request
from penstock.testing.engine_log import EngineLog, Entry
from penstock.testing.engine_options import Options
from penstock.testing.http_connection import Connection, HttpRequest
from penstock.testing.prefix_blocks import TOKENS_PER_BLOCK, PrefixBlocks
from penstock.testing.response_head import ResponseHead
from penstock.testing.script import Control, Script, ScriptError, read_script
from penstock.testing.scripted_answers import Answer, compose
from penstock.testing.slots import QueueFullError, Slots
from penstock.testing.token_stream import TokenStream
from penstock.testing.vllm_shapes import ChunkWriter, Usage, error_body, whole_answer, whole_choice

_LOAD_HEADER = "endpoint-load-metrics-format"


class Inference:
    """Runs requests in slots and keeps what they leave behind: the log and the prefix cache."""

    def __init__(self, options: Options, clock: Clock, heads: ResponseHead) -> None:
        self._options = options
        self._clock = clock
        self._heads = heads
        self.log = EngineLog(options.log_limit, options.requests_file)
        self.slots = Slots(options.slots, options.queue_limit)
        self.blocks = PrefixBlocks(options.kv_blocks)
        self.tokens_held = 0
        self.control = Control()
        self._defaults: dict[str, Any] = {}
        self._defaults_left: int | None = None

    def set_control(self, control: Control, defaults: dict[str, Any]) -> None:
        """What every later request does, or the next `times` of them."""
        self.control = control
        self._defaults = defaults
        self._defaults_left = control.times

    @property
    def kv_usage(self) -> float:
        """The share of the cache that running requests hold."""
        return min(self.tokens_held / (self.blocks.capacity * TOKENS_PER_BLOCK), 1.0)

    async def run(self, http: HttpRequest, connection: Connection, *, is_chat: bool) -> None:
        prefix = "chatcmpl-" if is_chat else "cmpl-"
        request_id = prefix + (http.headers.get("x-request-id") or _hex_id())
        entry = Entry(id=request_id, headers=http.headers, body=http.body)
        self.log.open(entry)
        outcome = "aborted"
        try:
            await self._answer(http, connection, entry, is_chat=is_chat)
            outcome = "finished"
        except AnswerEndedError:
            outcome = "faulted"
        except RequestRefusedError as refusal:
            outcome = "refused"
            body = error_body(refusal.status, refusal.message, refusal.param)
            connection.write(self._heads.json(refusal.status, len(body), refusal.headers) + body)
        finally:
            self.log.close(entry, outcome)

    async def _answer(
        self, http: HttpRequest, connection: Connection, entry: Entry, *, is_chat: bool
    ) -> None:
        options = self._options
        request = read_request(
            http.body, is_chat=is_chat, model=options.model, max_model_len=options.max_model_len
        )
        script = self._script_for(request)
        delivery = Delivery(connection, script)
        await delivery.before_head()
        self._refuse(script)
        if script.garbage_json:
            await delivery.send_body(self._heads.json(200, len(GARBAGE_JSON)), GARBAGE_JSON)
            raise AnswerEndedError
        if request.stream:
            await delivery.send_head(self._heads.stream(script.headers))
        await self.slots.acquire(request.priority)
        entry.outcome = "running"
        self.tokens_held += request.prompt_tokens
        try:
            if request.stream:
                await self._stream(request, script, delivery, entry)
            else:
                wants_load = http.headers.get(_LOAD_HEADER, "").lower() == "json"
                await self._whole(request, script, delivery, entry, wants_load=wants_load)
        finally:
            self.tokens_held -= request.prompt_tokens
            self.slots.release()

    def _script_for(self, request: ChatRequest) -> Script:
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
        self, request: ChatRequest, script: Script, delivery: Delivery, entry: Entry
    ) -> None:
        await delivery.before_first()
        answers, call_ids = _composed(request, script)
        chunks = ChunkWriter(
            entry.id, int(self._clock.now()), self._options.model, is_chat=request.is_chat
        )
        stream = TokenStream(
            request, chunks, self._usage(request, script), has_usage=not script.no_usage
        )
        silent = request.n if request.is_chat else 0
        total = sum(answer.completion_tokens for answer in answers)
        for position, event in enumerate(stream.events(answers, call_ids)):
            # The first events only name the role, and the last may only carry usage.
            entry.completion_tokens = min(max(position + 1 - silent, 0), total)
            await delivery.send_event(event)
        await delivery.finish()
        self._remember(request, answers)

    async def _whole(
        self,
        request: ChatRequest,
        script: Script,
        delivery: Delivery,
        entry: Entry,
        *,
        wants_load: bool,
    ) -> None:
        usage = self._usage(request, script)
        answers, call_ids = _composed(request, script)
        total = sum(answer.completion_tokens for answer in answers)
        if script.interval:
            for made in range(total):
                entry.completion_tokens = made
                await asyncio.sleep(script.interval)
        entry.completion_tokens = total
        is_chat = request.is_chat
        choices = b",".join(
            whole_choice(index, answer, call_ids[index], is_chat=is_chat)
            for index, answer in enumerate(answers)
        )
        body = whole_answer(
            entry.id,
            int(self._clock.now()),
            self._options.model,
            choices,
            b"" if script.no_usage else usage.final(total, is_stream=False, is_chat=is_chat),
            is_chat=is_chat,
        )
        extra = dict(script.headers)
        if wants_load:
            extra["endpoint-load-metrics"] = self._load()
        await delivery.send_body(self._heads.json(200, len(body), extra), body)
        self._remember(request, answers)

    def _usage(self, request: ChatRequest, script: Script) -> Usage:
        cached = self.blocks.admit(request.rendered, request.cache_salt)
        full = request.prompt_tokens // TOKENS_PER_BLOCK * TOKENS_PER_BLOCK
        return Usage(
            prompt_tokens=request.prompt_tokens,
            cached_tokens=cached,
            created_tokens=max(full - cached, 0),
            overrides=script.lie_usage,
        )

    def _remember(self, request: ChatRequest, answers: list[Answer]) -> None:
        text = "".join(answers[0].pieces).encode()
        self.blocks.extend(request.rendered + text, request.cache_salt)

    def _load(self) -> str:
        waiting, usage = float(self.slots.waiting), self.kv_usage
        metrics = f'"num_requests_waiting": {waiting}, "kv_cache_usage_perc": {usage}'
        return f'JSON {{"named_metrics": {{{metrics}}}}}'


def _composed(request: ChatRequest, script: Script) -> tuple[list[Answer], list[list[str]]]:
    answers = [compose(request, script, index) for index in range(request.n)]
    call_ids = [[f"chatcmpl-tool-{_hex_id()}" for _ in answer.tool_calls] for answer in answers]
    return answers, call_ids


def _hex_id() -> str:
    return new_id().replace("-", "")[-16:]
