"""Counts the media in `messages`, and refuses media that the engine would fetch from elsewhere.

The engine would fetch an http URL itself, so media must come as `data:` URLs, or from hosts that
the operator lists. Strings are the bulk of a long prompt and are skipped, not copied.
"""

import base64
import binascii
import time
from typing import Final
from urllib.parse import urlsplit

import msgspec
from msgspec import Raw

from penstock.errors import BadBase64, InvalidRequest
from penstock.wire.json_body import (
    ARRAY_START,
    DEPTH_MAX,
    OBJECT_START,
    Fields,
    check_count,
    first_byte,
    is_container,
    refuse_deep,
)
from penstock.wire.prompt.known_prompt import KnownPrompt
from penstock.wire.prompt.media import Images, Media
from penstock.wire.prompt.shapes import MediaUrl

# Keys by which vLLM recognises a part that it would load, when `type` is absent.
_IMAGE_KEYS = frozenset({"image_url", "image_pil", "image_embeds"})
_MEDIA_KEYS = _IMAGE_KEYS | {
    "video_url", "audio_url", "file_url", "input_audio", "audio_embeds", "file", "prompt_embeds",
}  # fmt: skip
_URL_KEYS = frozenset({"image_url", "video_url", "audio_url", "file_url"})
_LEVELS_MAX: Final = DEPTH_MAX - 3
# Each level takes two brackets: a value of at most so many bytes, such as a role, is not too deep.
_FLAT_BYTES: Final = 2 * _LEVELS_MAX

_ADDRESS_CHARACTERS_MAX: Final = 8192
# A multiple of four, so that each piece of base64 can be checked by itself.
_BASE64_PIECE: Final = 64 * 1024

_messages_decoder = msgspec.json.Decoder(list[Fields])
_parts_decoder = msgspec.json.Decoder(list[Fields | str])
_url_decoder = msgspec.json.Decoder(MediaUrl | str | None)


def decode_messages(raw: Raw) -> list[Fields]:
    """Decode each message as name → raw value."""
    try:
        return _messages_decoder.decode(raw)
    except msgspec.DecodeError as bad:
        raise InvalidRequest(f"`messages`: {bad}", param="messages") from None
    except RecursionError:
        raise InvalidRequest("`messages` is nested too deep.", param="messages") from None


def look_at(
    messages: list[Fields], media_hosts: frozenset[str], known: KnownPrompt | None = None
) -> Media:
    """Check every message; return the media of these messages and of the known ones before them."""
    if not messages and known is None:
        raise InvalidRequest("`messages` is empty: send at least one message.", param="messages")
    media = _media_of(known)
    parts = 0
    for index, message in enumerate(messages, known.count if known else 0):
        for name, value in message.items():
            if len(value) <= _FLAT_BYTES and name != "content":
                continue
            first = first_byte(value)
            if name == "content" and first == ARRAY_START:
                images = look_at_parts(value, media_hosts, f"messages.{index}.content")
                parts += images.parts
                check_count(parts, "messages.*.content")
                if images.count:
                    media.add(index, images)
            elif first in (ARRAY_START, OBJECT_START):
                refuse_deep(value, levels_max=_LEVELS_MAX, param=f"messages.{index}.{name}")
    return media


def _media_of(known: KnownPrompt | None) -> Media:
    media = Media()
    if known is not None and known.images:
        numbers = iter(known.images)
        for index, count, size in zip(numbers, numbers, numbers, strict=True):
            media.add(index, Images(count, size))
    return media


def look_at_parts(raw: Raw, media_hosts: frozenset[str], param: str) -> Images:
    """Check the parts of one content; count those that are images."""
    images = Images()
    try:
        parts = _parts_decoder.decode(raw)
    except msgspec.DecodeError as bad:
        raise InvalidRequest(f"`{param}`: {bad}", param=param) from None
    images.parts = len(parts)
    check_count(images.parts, param)
    for part in parts:
        if isinstance(part, str):
            continue
        for name, value in part.items():
            if name in _MEDIA_KEYS:
                _check_media(name, value, media_hosts, param)
                if name in _IMAGE_KEYS:
                    images.count += 1
                    images.bytes += len(value)
            elif is_container(value):
                refuse_deep(value, levels_max=DEPTH_MAX - 5, param=param)
    return images


def _check_media(name: str, raw: Raw, media_hosts: frozenset[str], param: str) -> None:
    if name not in _URL_KEYS:
        refuse_deep(raw, levels_max=DEPTH_MAX - 5, param=param)
        return
    try:
        value = _url_decoder.decode(raw)
    except msgspec.DecodeError as bad:
        raise InvalidRequest(f"`{param}.{name}`: {bad}", param=param) from None
    url = value.url if isinstance(value, MediaUrl) else value
    if url is not None:
        check_url(url, media_hosts, param)


def check_url(url: str, media_hosts: frozenset[str], param: str) -> None:
    """Refuse an address that the engine would have to fetch, unless its host is listed."""
    if url[:5].lower() == "data:":
        _check_data_url(url, param)
        return
    if _is_listed(url, media_hosts):
        return
    raise InvalidRequest(
        f"`{param}`: send media as a `data:` URL; this gateway fetches none from elsewhere "
        "(an operator can list hosts in `ingress.media_hosts`).",
        param=param,
    )


def _is_listed(url: str, media_hosts: frozenset[str]) -> bool:
    # URL parsers disagree on backslashes and stray spaces, so these are refused.
    if len(url) > _ADDRESS_CHARACTERS_MAX or "\\" in url or any(c.isspace() for c in url):
        return False
    try:
        parts = urlsplit(url)
    except ValueError:
        # Such as half an IPv6 address.
        return False
    is_plain = parts.scheme in ("http", "https") and "@" not in parts.netloc
    return is_plain and parts.hostname in media_hosts


def _check_data_url(url: str, param: str) -> None:
    head, comma, data = url.partition(",")
    kind = head[5:].split(";", 1)[0].lower()
    if not comma or not head.lower().endswith(";base64"):
        raise BadBase64(
            f"`{param}`: invalid data type for base64 input: `{kind or 'none'}`.", param=param
        )
    if kind == "image/svg+xml":
        raise InvalidRequest(
            f"`{param}`: SVG images are not supported: send PNG or JPEG.", param=param
        )
    if not _is_base64(data.strip()):
        raise BadBase64(f"`{param}`: the `{kind}` data is not valid base64.", param=param)


def _is_base64(text: str) -> bool:
    """Return whether a text is base64. Works in pieces: keeps no image, lets other threads run."""
    for at in range(0, len(text), _BASE64_PIECE):
        piece = text[at : at + _BASE64_PIECE]
        if len(text) - at > _BASE64_PIECE and "=" in piece:
            return False
        try:
            base64.b64decode(piece, validate=True)
        except (binascii.Error, ValueError):
            return False
        if at:
            time.sleep(0)
    return True
