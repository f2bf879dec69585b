"""Finds calls of tools that a model wrote into its text, where the engine's parser missed them.

Only the marks count with which the models that we know begin a call. Engines send text in pieces,
so that a mark may begin in one event and end in a later one.
"""

import re
from typing import Final

import msgspec

MARKS: Final = (
    "<tool_call>", "<tool_calls>", "<|tool_call|>", "<|tool_call>", "<|tool_calls|>",
    "<|tool_calls_section_begin|>", "<|tool_call_begin|>", "<function_call>", "<function_calls>",
    "<function=", "<invoke name=", "<|python_tag|>", "<|action_start|>", "<minimax:tool_call>",
    "<seed:tool_call>", "<longcat_tool_call>", "<start_function_call>", "<TOOLCALL>",
    "<|channel|>commentary to=", "<\uff5ctool\u2581calls\u2581begin\uff5c>",
    "<\uff5ctool\u2581call\u2581begin\uff5c>", "<\uff5cDSML\uff5cfunction_calls>",
    "<\uff5cDSML\uff5cinvoke", "[TOOL_CALLS]", "[TOOL_CALL]",
)  # fmt: skip
# How a mark begins.
OPENINGS: Final = "<["
_TAIL_CHARACTERS: Final = 64
_texts: Final = msgspec.json.Decoder(str)
_any_mark: Final = re.compile("|".join(map(re.escape, MARKS)))
_beginnings: Final = frozenset(mark[:size] for mark in MARKS for size in range(1, len(mark)))
_opening: Final = re.compile(f"[{re.escape(OPENINGS)}]")


def has_text_call(text: str) -> bool:
    return _any_mark.search(text) is not None


def unfinished_mark(text: str) -> str:
    """Return the end of a text that may be the beginning of a mark; "" if there is none."""
    tail = text[-_TAIL_CHARACTERS:]
    for found in _opening.finditer(tail):
        rest = tail[found.start() :]
        if rest in _beginnings:
            return rest
    return ""


def is_harmless(written: bytes) -> bool:
    """Return whether a text, as JSON writes it, surely has no mark and begins none."""
    try:
        text = _texts.decode(b'"%s"' % written)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return False
    return not has_text_call(text) and not unfinished_mark(text)
