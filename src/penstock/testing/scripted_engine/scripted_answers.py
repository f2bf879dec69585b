"""Composes the scripted engine's answers: the same words for the same prompt, tool calls, or JSON.

Nothing here knows HTTP. A piece of an answer is the text of one "token".
"""

import contextlib
import json
import re
import zlib
from typing import Any

import msgspec

from penstock.testing.scripted_engine.engine_request import EngineRequest
from penstock.testing.scripted_engine.script import Script

_WORDS = (
    "water", "gate", "turbine", "valve", "river", "café", "pressure", "flow", "naïve", "stone",
    "channel", "level", "日本", "sluice", "wheel", "dam", "“quoted”", "spill", "🌊", "intake",
    "tunnel", "head", "\\path", "\"loss\"",
)  # fmt: skip
# Made once, so that an answer of 100,000 words holds references and not 100,000 strings.
_SPACED_WORDS = tuple(f" {word}" for word in _WORDS)
_PIECES = re.compile(r"\s*\S+|\s+$")
_CALL = re.compile(r"CALL ([A-Za-z0-9_.:-]+) ?")
_json_object = json.JSONDecoder()
_PIECE_CHARACTERS = 4


class ScriptedToolCall(msgspec.Struct, frozen=True):
    """One tool call, with its arguments in the pieces that are streamed."""

    name: str
    pieces: list[str]


class ScriptedAnswer(msgspec.Struct, frozen=True):
    """One choice. Each piece is a token; an answer that ends by itself has one more, hidden."""

    pieces: list[str]
    finish_reason: str
    reasoning: list[str] = []
    tool_calls: list[ScriptedToolCall] = []
    stop_reason: str | None = None
    # True if the call is written in the older form, `function_call`.
    calls_function: bool = False
    # True if the finish reason comes with the last piece, as at a limit or a stop word.
    ends_with_piece: bool = False

    @property
    def completion_tokens(self) -> int:
        calls = sum(len(call.pieces) + 1 for call in self.tool_calls)
        own_end = 0 if self.ends_with_piece else 1
        return len(self.reasoning) + len(self.pieces) + calls + own_end


def compose(request: EngineRequest, script: Script, index: int) -> ScriptedAnswer:
    """Return the answer for choice `index`."""
    called = script.calls or _called_tools(request)
    if called:
        calls = [ScriptedToolCall(name=name, pieces=_cut(arguments)) for name, arguments in called]
        reason = "stop" if isinstance(request.tool_choice, dict) else "tool_calls"
        if request.has_functions:
            calls, reason = calls[:1], "function_call"
        said = _PIECES.findall(script.text) if script.text else []
        return ScriptedAnswer(
            pieces=said,
            finish_reason=reason,
            tool_calls=calls,
            calls_function=request.has_functions,
        )
    reasoning = _PIECES.findall(script.reasoning) if script.reasoning else []
    pieces = _pieces(request, script, index)
    answer = _stopped(pieces, request.stop)
    if answer is None:
        answer = ScriptedAnswer(pieces=pieces, finish_reason="stop")
    answer = msgspec.structs.replace(answer, reasoning=reasoning)
    limit = request.token_limit
    if limit is not None and answer.completion_tokens > limit:
        kept = reasoning[:limit]
        return ScriptedAnswer(
            pieces=answer.pieces[: limit - len(kept)],
            reasoning=kept,
            finish_reason="length",
            ends_with_piece=True,
        )
    return answer


def minimal_instance(schema: object, root: object = None) -> Any:  # noqa: ANN401 - any JSON value
    """Return a small JSON value with the schema's required parts; enough for tests."""
    root = schema if root is None else root
    if not isinstance(schema, dict):
        return {}
    if "$ref" in schema:
        return minimal_instance(_resolve(root, schema["$ref"]), root)
    for name in ("const", "default"):
        if name in schema:
            return schema[name]
    if schema.get("enum"):
        return schema["enum"][0]
    for name in ("anyOf", "oneOf", "allOf"):
        if schema.get(name):
            return minimal_instance(schema[name][0], root)
    return _by_type(schema, root)


def _by_type(schema: dict[str, Any], root: object) -> Any:  # noqa: ANN401 - any JSON value
    kind = schema.get("type", "object")
    kind = kind[0] if isinstance(kind, list) else kind
    if kind == "object":
        properties = schema.get("properties", {})
        required = schema.get("required", [])
        return {name: minimal_instance(properties.get(name, {}), root) for name in required}
    if kind == "array":
        return [minimal_instance(schema.get("items", {}), root)] * int(schema.get("minItems", 0))
    plain = {"integer": int(schema.get("minimum", 0)), "number": 0.5, "boolean": True, "null": None}
    return plain.get(kind, "water"[: schema.get("maxLength", 5)])


def _resolve(root: object, reference: str) -> object:
    found = root
    for name in reference.removeprefix("#/").split("/"):
        found = found[name] if isinstance(found, dict) else {}
    return found


def _called_tools(request: EngineRequest) -> list[tuple[str, str]]:
    """Return names and JSON arguments of the tools to call, in order.

    A prompt may ask for several rounds of calls, with `THEN` between them: each is made when the
    results of those before it are there.
    """
    if not request.tools or request.tool_choice == "none":
        return []
    parameters = {tool["function"]["name"]: tool["function"] for tool in request.tools}
    rounds = request.last_user_text.split("THEN ")
    asked = _asked_calls(rounds[request.rounds]) if request.rounds < len(rounds) else []
    wanted = [(name, given) for name, given in asked if name in parameters]
    if isinstance(request.tool_choice, dict):
        name = request.tool_choice["function"]["name"]
        wanted = [call for call in wanted if call[0] == name] or [(name, None)]
    elif request.tool_choice == "required" and not wanted:
        wanted = [(next(iter(parameters)), None)]
    return [
        (
            name,
            given or _to_json(minimal_instance(parameters.get(name, {}).get("parameters", {}))),
        )
        for name, given in wanted
    ]


def _asked_calls(text: str) -> list[tuple[str, str | None]]:
    """Return the tools of `CALL name {…}`; the arguments may be left out.

    A call inside another call's arguments is not one of them.
    """
    calls: list[tuple[str, str | None]] = []
    at = 0
    while found := _CALL.search(text, at):
        at = found.end()
        given = None
        if text.startswith("{", at):
            with contextlib.suppress(ValueError):
                _, end = _json_object.raw_decode(text, at)
                given, at = text[at:end], end
        calls.append((found[1], given))
    return calls


def _pieces(request: EngineRequest, script: Script, index: int) -> list[str]:
    if script.text is not None:
        return _PIECES.findall(script.text)
    if script.huge_line is not None:
        return ["x" * script.huge_line]
    if request.wants_json and script.tokens is None:
        return _cut(_to_json(minimal_instance(request.json_schema or {})))
    if script.sentence is not None and script.tokens is None and not request.ignore_eos:
        return _PIECES.findall(script.sentence)
    seed = zlib.crc32(request.prompts[index // request.n], index % request.n)
    count = 8 + seed % 17 if script.tokens is None else script.tokens - 1
    if request.ignore_eos and request.token_limit is not None and script.tokens is None:
        count = request.token_limit
    count = max(count, request.min_tokens - 1, 0)
    # Make no words beyond the limit: a script's `tokens` may be any number.
    return _words(seed, count if request.token_limit is None else min(count, request.token_limit))


def _words(seed: int, count: int) -> list[str]:
    words = []
    for position in range(count):
        seed = (seed * 1103515245 + 12345) & 0x7FFFFFFF
        choice = (seed >> 16) % len(_WORDS)
        words.append(_SPACED_WORDS[choice] if position else _WORDS[choice])
    return words


def _stopped(pieces: list[str], stops: list[str]) -> ScriptedAnswer | None:
    """Return the answer up to its first stop word, or None if it has none."""
    if not stops:
        return None
    text = "".join(pieces)
    found = [(text.find(stop), stop) for stop in stops if stop and stop in text]
    if not found:
        return None
    end, stop = min(found)
    kept, length = [], 0
    for piece in pieces:
        kept.append(piece[: end - length])
        length += len(piece)
        if length >= end + len(stop):
            break
    return ScriptedAnswer(pieces=kept, finish_reason="stop", stop_reason=stop, ends_with_piece=True)


def _cut(text: str) -> list[str]:
    return [text[at : at + _PIECE_CHARACTERS] for at in range(0, len(text), _PIECE_CHARACTERS)]


def _to_json(value: object) -> str:
    return msgspec.json.encode(value).decode()
