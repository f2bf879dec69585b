"""Long bodies, each of the shape that costs most in one of the steps that a body goes through.

Some are good requests and are served; most are refused, and must be cheap.
"""

import base64
from typing import Final

import msgspec
from tests.integration.cells.gateway_cell import CHAT, COMPOSED, PLAIN, REPLIES

CHATS: Final = "/v1/chat/completions"
_MESSAGES: Final = "/v1/messages"
_RESPONSES: Final = "/v1/responses"
_COMPLETIONS: Final = "/v1/completions"
_EMBEDDINGS: Final = "/v1/embeddings"


class Shape(msgspec.Struct, frozen=True):
    """What a body begins with, what it repeats as often as there is room for, and how it ends."""

    before: bytes
    unit: bytes
    after: bytes
    path: str = CHATS

    def body(self, size: int) -> bytes:
        room = size - len(self.before) - len(self.after)
        return self.before + self.unit * (room // len(self.unit)) + self.after


_MODEL: Final = b'{"model":"%s",' % CHAT.encode()
_REPLIES: Final = b'{"model":"%s",' % REPLIES.encode()
_COMPOSED: Final = b'{"model":"%s",' % COMPOSED.encode()
_PLAIN: Final = b'{"model":"%s",' % PLAIN.encode()
_TEXT: Final = b'{"role":"user","content":"hi"}'
_CHAT: Final = _MODEL + b'"messages":['
_CONTENT: Final = _CHAT + b'{"role":"user","content":'
# Behind the messages.
_REST: Final = _CHAT + _TEXT + b"],"
_TOOL: Final = b'{"type":"function","function":{"name":"f","parameters":{}}}'
_FLAT_TOOL: Final = b'{"type":"function","name":"f","parameters":{}}'
_IMAGE: Final = b'[{"type":"image_url","image_url":{"url":"'
_INLINE: Final = _CONTENT + _IMAGE + b"data:image/png;base64,"
_DATA: Final = base64.b64encode(bytes(range(256)) * 3)
_BLOCKS: Final = _MODEL + b'"max_tokens":1,"messages":[{"role":"user","content":['
_NESTED: Final = b"[" * 60 + b"]" * 60


def _text(unit: bytes) -> Shape:
    return Shape(_CONTENT + b'"', unit, b'"}]}')


def _list(unit: bytes) -> Shape:
    return Shape(_REST + b'"x":[', unit, b"0]}")


SHAPES: Final = {
    "one long text": _text(b"a"),
    "text with commas and brackets": _text(b"a, [b] {c}; "),
    "escaped letters": _text(b"\\u0041"),
    "escaped backslashes": _text(b"\\\\"),
    "escaped quotes": _text(b'\\"'),
    "text that is not ASCII": _text("\u4e2d\u00e9".encode()),
    "not UTF-8 at its end": Shape(_CONTENT + b'"', b"\xc3\xa9", b'\xff"}]}'),
    "an unterminated text": Shape(_CONTENT + b'"', b"a", b""),
    "quotes only": Shape(b"", b'"', b""),
    "tiny numbers": _list(b"0,"),
    "one long number": Shape(_REST + b'"x":', b"1", b"}"),
    "empty strings": _list(b'"",'),
    "strings": _list(b'"abcdefgh",'),
    "numbers and a text": Shape(_REST + b'"x":[' + b"0," * 150_000 + b'"', b"a", b'"]}'),
    "nested arrays": _list(_NESTED + b","),
    "brackets in texts": _list(b'"' + b"[{" * 4096 + b'",'),
    "depth without end": Shape(_REST + b'"x":', b"[", b""),
    "spaces": Shape(_MODEL, b" ", b'"messages":[' + _TEXT + b"]}"),
    "many fields": Shape(_REST + b'"a":0', b',"b":0', b"}"),
    "names of one message": Shape(_CHAT + b"{", b'"abcdefgh":0,', b'"role":"user"}]}'),
    "empty messages": Shape(_CHAT, b"{},", b"{}]}"),
    "messages": Shape(_CHAT, _TEXT + b",", _TEXT + b"]}"),
    "as many messages as may be": Shape(
        _CHAT + (_TEXT + b",") * 9_999 + b'{"role":"user","content":"', b"a", b'"}]}'
    ),
    "as many names as may be": Shape(
        _CHAT + b",".join([b'{"a":0,"b":0,"c":0}'] * 6_660) + b",",
        b" ",
        _TEXT + b"]}",
    ),
    "as many parts as may be": Shape(
        _CONTENT + b"[" + b'{"type":"text","text":"a"},' * 9_999 + b'{"type":"text","text":"',
        b"a",
        b'"}]}]}',
    ),
    "parts": Shape(_CONTENT + b"[", b'{"type":"text","text":"a"},', b"{}]}]}"),
    "tools": Shape(_REST + b'"tools":[', _TOOL + b",", _TOOL + b"]}"),
    "one long tool": Shape(
        _REST + b'"tools":[{"type":"function","function":{"name":"f","description":"',
        b"say [{hello}], ",
        b'"}}]}',
    ),
    "an image": Shape(_INLINE, _DATA, b'"}}]}]}'),
    "an image that is none": Shape(
        _CONTENT + _IMAGE + b"data:image/png;base64,", _DATA, b'!"}}]}]}'
    ),
    "an address": Shape(_CONTENT + _IMAGE + b"https://x/", b"a", b'"}}]}]}'),
    "a model's name": Shape(b'{"messages":[' + _TEXT + b'],"model":"', b"m", b'"}'),
    "a field's name": Shape(_REST + b'"', b"n", b'":0}'),
    "a label": Shape(_REST + b'"prompt_cache_key":"', b"k", b'"}'),
    "metadata": Shape(_REST + b'"metadata":{"workflow":"', b"k", b'"}}'),
    "blocks": Shape(_BLOCKS, b'{"type":"text","text":"a"},', b"{}]}]}", _MESSAGES),
    "blocks in blocks": Shape(
        _BLOCKS + b'{"type":"tool_result","content":[' * 30 + b'{"a":"',
        b"a",
        b'"}' + b"]}" * 30 + b"]}]}",
        _MESSAGES,
    ),
    "items": Shape(_REPLIES + b'"input":[', _TEXT + b",", _TEXT + b"]}", _RESPONSES),
    "instructions": Shape(_REPLIES + b'"input":"hi","instructions":"', b"\\n", b'"}', _RESPONSES),
    "composed items": Shape(_COMPOSED + b'"input":[', _TEXT + b",", _TEXT + b"]}", _RESPONSES),
    "as many composed items as may be": Shape(
        _COMPOSED + b'"input":[' + (_TEXT + b",") * 9_999 + b'{"role":"user","content":"',
        b"\\n",
        b'"}]}',
        _RESPONSES,
    ),
    "composed instructions": Shape(
        _COMPOSED + b'"input":"hi","instructions":"', b"\\n", b'"}', _RESPONSES
    ),
    "composed tools": Shape(
        _COMPOSED + b'"input":"hi","tools":[', _FLAT_TOOL + b",", _FLAT_TOOL + b"]}", _RESPONSES
    ),
    "one long composed tool": Shape(
        _COMPOSED + b'"input":"hi","tools":[{"type":"function","name":"f","description":"',
        b"say [{hello}], ",
        b'"}]}',
        _RESPONSES,
    ),
    "a compaction": Shape(_COMPOSED + b'"input":"', b"say \\n", b'"}', f"{_RESPONSES}/compact"),
    "a prompt": Shape(_PLAIN + b'"prompt":"', b"\\u4e2d", b'"}', _COMPLETIONS),
    "token ids": Shape(_PLAIN + b'"prompt":[', b"100000,", b"1]}", _COMPLETIONS),
    "texts": Shape(_PLAIN + b'"input":[', b'"abc",', b'"a"]}', _EMBEDDINGS),
    "a job": _text(b"ab\\n"),
}
