"""Reads a request of OpenAI's older completions: a prompt without roles or a chat template.

Some fields are read, strictly; the rest goes to the engine untouched.
"""

from typing import Final

from penstock.errors import InvalidRequest
from penstock.records.model import Capability
from penstock.wire.apis.chat import read_choices, read_stream_options
from penstock.wire.apis.prompt_fields import take_options, weigh, workflow_of
from penstock.wire.apis.prompt_request import CACHE_KEY, STREAM, TOKENS, PromptRequest
from penstock.wire.apis.prompt_texts import read_texts
from penstock.wire.apis.response_format import normalised
from penstock.wire.json_body import Field, Fields, is_given
from penstock.wire.prompt.media import Media

# As many answers as a chat may have choices.
_ANSWERS_MAX: Final = 128
_MAX_TOKENS = Field("max_tokens", TOKENS, None)
_LOOKED_AT: Final = frozenset({"prompt", "response_format"})


def read_completions(fields: Fields, media_hosts: frozenset[str]) -> PromptRequest:
    """Read and check one request. `fields` is changed: options are taken out of it."""
    del media_hosts  # There are no media in a text.
    if is_given(fields, "prompt_embeds"):
        raise InvalidRequest("`prompt_embeds` is not taken: send a text.", param="prompt_embeds")
    texts = read_texts(fields, "prompt", _ANSWERS_MAX)
    is_stream = bool(STREAM.read(fields))
    if is_stream and texts.count > 1:
        # An engine counts each text by itself: the sum of a stream that is cut would be unknown.
        raise InvalidRequest(
            "`prompt`: only one text can be streamed: send a request for each, or do not stream.",
            param="prompt",
        )
    choices = read_choices(fields) * texts.count
    if choices > _ANSWERS_MAX:
        raise InvalidRequest(
            f"`n` for each prompt makes {choices} answers: at most {_ANSWERS_MAX} are made.",
            param="n",
        )
    stream_options = read_stream_options(fields, is_stream=is_stream)
    needs = frozenset[Capability]()
    if "response_format" in fields and normalised(fields):
        needs = frozenset({Capability.STRUCTURED_OUTPUT})
    return PromptRequest(
        fields=fields,
        messages=texts.parts,
        media=Media(),
        is_stream=is_stream,
        wants_usage=bool(stream_options.include_usage),
        wants_continuous_usage=bool(stream_options.continuous_usage_stats),
        choices=choices,
        prompts=texts.count,
        cache_key=CACHE_KEY.read(fields) or "",
        options=take_options(fields),
        needs=needs,
        prompt_bytes=texts.bytes + weigh(fields, _LOOKED_AT),
        max_tokens=_MAX_TOKENS.read(fields),
        workflow=workflow_of(fields),
    )
