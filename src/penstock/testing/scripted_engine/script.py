"""Reads the directives by which a test controls the scripted engine.

A test puts them into the last user message, as a line `@script {"stall_before_head": 2.0}` that
passes through any gateway, or sends them by `POST /control` as the default of later requests.
"""

from typing import Any

import msgspec

_MARK = "@script "


class Script(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """All directives. "After n" counts SSE events, or body bytes if not streamed."""

    # The answer's content.
    text: str | None = None
    # Instead of made-up words, but not instead of JSON that the request asks for.
    sentence: str | None = None
    reasoning: str | None = None
    # Tools that are called, offered or not, each with its arguments as JSON.
    calls: list[tuple[str, str]] | None = None
    tokens: int | None = None
    huge_line: int | None = None
    no_usage: bool = False
    lie_usage: dict[str, Any] | None = None
    no_done: bool = False
    headers: dict[str, str] = {}

    # The answer's timing.
    interval: float = 0.0
    stall_before_head: float = 0.0
    stall_before_first: float = 0.0
    # [after n, seconds]; null seconds: for ever.
    stall_after: tuple[int, float | None] | None = None
    # Seconds between the bytes of the head; true means 0.001.
    slow_head: float | bool = False

    # The split into writes. Offsets count the SSE bytes, without the transfer coding.
    split: int | None = None
    split_at: list[int] | None = None
    split_pause: float = 0.001
    glue: bool = False

    # Failures.
    status: int | None = None
    message: str | None = None
    cut_before_head: bool = False
    cut_after: int | None = None
    close_after: int | None = None
    die_before_head: bool = False
    die_after: int | None = None
    error_after: int | None = None
    garbage: bool = False
    garbage_json: bool = False
    garbage_sse_after: int | None = None
    raw: str | None = None

    @property
    def shapes_writes(self) -> bool:
        return self.glue or self.split is not None or self.split_at is not None


class EngineControl(msgspec.Struct, frozen=True):
    """The settings of `POST /control` beside the script; each call replaces all earlier ones."""

    healthy: bool = True
    health_delay: float = 0.0
    # The script applies only to this number of inference requests.
    times: int | None = None


_CONTROL_KEYS = frozenset(EngineControl.__struct_fields__)


class ScriptError(ValueError):
    """The directive is unknown, or cannot be read."""


def read_control(body: bytes) -> tuple[EngineControl, dict[str, Any]]:
    """Return the control settings, and the default script's keys, which a request may override."""
    try:
        keys = msgspec.json.decode(body or b"{}", type=dict[str, Any])
        script_keys = {name: value for name, value in keys.items() if name not in _CONTROL_KEYS}
        msgspec.convert(script_keys, Script)
        return msgspec.convert(keys, EngineControl), script_keys
    except msgspec.MsgspecError as error:
        raise ScriptError(str(error)) from error


def read_script(defaults: dict[str, Any], prompt: str) -> Script:
    """Return the defaults, overridden by the prompt's `@script` line, if it has one."""
    keys = defaults
    position = prompt.find(_MARK)
    if position >= 0:
        line = prompt[position + len(_MARK) :].split("\n", 1)[0]
        try:
            keys = {**defaults, **msgspec.json.decode(line.strip(), type=dict[str, Any])}
        except msgspec.MsgspecError as error:
            raise ScriptError(f"{error}: {line}") from error
    if not keys:
        return PLAIN
    try:
        return msgspec.convert(keys, Script)
    except msgspec.MsgspecError as error:
        raise ScriptError(str(error)) from error


PLAIN = Script()
