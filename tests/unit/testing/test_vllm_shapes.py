"""The scripted engine's bytes against those recorded from vLLM 0.32.0 (SmolLM2 on CPU)."""

import pytest

from penstock.testing.scripted_engine.answer_usage import AnswerUsage
from penstock.testing.scripted_engine.chat_request import read_chat, read_completion
from penstock.testing.scripted_engine.engine_request import EngineRequest, Served
from penstock.testing.scripted_engine.scripted_answers import ScriptedAnswer, ScriptedToolCall
from penstock.testing.scripted_engine.token_stream import TokenStream
from penstock.testing.scripted_engine.vllm_shapes import (
    FINGERPRINT,
    ChunkWriter,
    error_body,
    whole_answer,
    whole_choice,
)

TWO_CHOICES_WITH_USAGE = """\
data: {"id":"chatcmpl-846414758f68c27b","object":"chat.completion.chunk","created":1794712120,"model":"smollm2","choices":[{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}],"usage":{"prompt_tokens":31,"total_tokens":31,"completion_tokens":0,"completion_tokens_details":null},"prompt_token_ids":null,"prompt_text":null}

data: {"id":"chatcmpl-846414758f68c27b","object":"chat.completion.chunk","created":1794712120,"model":"smollm2","choices":[{"index":1,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}],"usage":{"prompt_tokens":31,"total_tokens":31,"completion_tokens":0,"completion_tokens_details":null},"prompt_token_ids":null,"prompt_text":null}

data: {"id":"chatcmpl-846414758f68c27b","object":"chat.completion.chunk","created":1794712120,"model":"smollm2","choices":[{"index":0,"delta":{"content":"Car"},"logprobs":null,"finish_reason":null,"token_ids":null}],"usage":{"prompt_tokens":31,"total_tokens":32,"completion_tokens":1,"completion_tokens_details":null}}

data: {"id":"chatcmpl-846414758f68c27b","object":"chat.completion.chunk","created":1794712120,"model":"smollm2","choices":[{"index":1,"delta":{"content":"hey"},"logprobs":null,"finish_reason":null,"token_ids":null}],"usage":{"prompt_tokens":31,"total_tokens":32,"completion_tokens":1,"completion_tokens_details":null}}

data: {"id":"chatcmpl-846414758f68c27b","object":"chat.completion.chunk","created":1794712120,"model":"smollm2","choices":[{"index":0,"delta":{"content":" Mar"},"logprobs":null,"finish_reason":"length","stop_reason":null,"token_ids":null}],"usage":{"prompt_tokens":31,"total_tokens":33,"completion_tokens":2,"completion_tokens_details":null}}

data: {"id":"chatcmpl-846414758f68c27b","object":"chat.completion.chunk","created":1794712120,"model":"smollm2","choices":[{"index":1,"delta":{"content":","},"logprobs":null,"finish_reason":"length","stop_reason":null,"token_ids":null}],"usage":{"prompt_tokens":31,"total_tokens":33,"completion_tokens":2,"completion_tokens_details":null}}

data: {"id":"chatcmpl-846414758f68c27b","object":"chat.completion.chunk","created":1794712120,"model":"smollm2","choices":[],"usage":{"prompt_tokens":31,"total_tokens":35,"completion_tokens":4,"prompt_tokens_details":{"cached_tokens":0,"created_cache_tokens":0}},"system_fingerprint":"vllm-0.32.0-1980f723"}

"""  # noqa: E501 - recorded lines, kept whole

TOOL_CALL = """\
data: {"id":"chatcmpl-9e4e552801f4c16f","object":"chat.completion.chunk","created":1794712128,"model":"smollm2","choices":[{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}],"prompt_token_ids":null,"prompt_text":null}

data: {"id":"chatcmpl-9e4e552801f4c16f","object":"chat.completion.chunk","created":1794712128,"model":"smollm2","choices":[{"index":0,"delta":{"content":null,"tool_calls":[{"id":"chatcmpl-tool-9db129864f388ec0","type":"function","index":0,"function":{"name":"f"}}]},"logprobs":null,"finish_reason":null,"token_ids":null}]}

data: {"id":"chatcmpl-9e4e552801f4c16f","object":"chat.completion.chunk","created":1794712128,"model":"smollm2","choices":[{"index":0,"delta":{"content":null,"tool_calls":[{"index":0,"function":{"arguments":"{\\""}}]},"logprobs":null,"finish_reason":null,"token_ids":null}]}

data: {"id":"chatcmpl-9e4e552801f4c16f","object":"chat.completion.chunk","created":1794712128,"model":"smollm2","choices":[{"index":0,"delta":{"content":null,"tool_calls":[{"index":0,"function":{"arguments":"}"}}]},"logprobs":null,"finish_reason":null,"token_ids":null}]}

data: {"id":"chatcmpl-9e4e552801f4c16f","object":"chat.completion.chunk","created":1794712128,"model":"smollm2","choices":[{"index":0,"delta":{},"logprobs":null,"finish_reason":"tool_calls","stop_reason":null,"token_ids":null}],"system_fingerprint":"vllm-0.32.0-1980f723"}

"""  # noqa: E501 - recorded lines, kept whole

OWN_END_WITH_USAGE = """\
data: {"id":"chatcmpl-b9713fc67615ddbd","object":"chat.completion.chunk","created":1794712301,"model":"smollm2","choices":[{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}],"prompt_token_ids":null,"prompt_text":null}

data: {"id":"chatcmpl-b9713fc67615ddbd","object":"chat.completion.chunk","created":1794712301,"model":"smollm2","choices":[{"index":0,"delta":{"content":"?"},"logprobs":null,"finish_reason":null,"token_ids":null}]}

data: {"id":"chatcmpl-b9713fc67615ddbd","object":"chat.completion.chunk","created":1794712301,"model":"smollm2","choices":[{"index":0,"delta":{},"logprobs":null,"finish_reason":"stop","stop_reason":null,"token_ids":null}]}

data: {"id":"chatcmpl-b9713fc67615ddbd","object":"chat.completion.chunk","created":1794712301,"model":"smollm2","choices":[],"usage":{"prompt_tokens":31,"total_tokens":33,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":0,"created_cache_tokens":0}},"system_fingerprint":"vllm-0.32.0-1980f723"}

"""  # noqa: E501 - recorded lines, kept whole

COMPLETION_WITH_USAGE = """\
data: {"id":"cmpl-87b6add010e1283a","object":"text_completion","created":1794712132,"model":"smollm2","choices":[{"index":0,"text":"-","logprobs":null,"finish_reason":null,"stop_reason":null,"prompt_token_ids":null,"token_ids":null}]}

data: {"id":"cmpl-87b6add010e1283a","object":"text_completion","created":1794712132,"model":"smollm2","choices":[{"index":0,"text":"packed","logprobs":null,"finish_reason":"length","stop_reason":null,"prompt_token_ids":null,"token_ids":null}]}

data: {"id":"cmpl-87b6add010e1283a","object":"text_completion","created":1794712132,"model":"smollm2","choices":[],"usage":{"prompt_tokens":31,"total_tokens":33,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":0}},"system_fingerprint":"vllm-0.32.0-1980f723"}

"""  # noqa: E501 - recorded lines, kept whole

WHOLE_TOOL_CALL = """\
{"id":"chatcmpl-ad262110c9944edd","object":"chat.completion","created":1794712121,"model":"smollm2","choices":[{"index":0,"message":{"role":"assistant","content":"","refusal":null,"annotations":null,"audio":null,"function_call":null,"tool_calls":[{"id":"chatcmpl-tool-b7740460a81a6ee4","type":"function","function":{"name":"f","arguments":"{\\"a\\": \\"x\\"}"}}],"reasoning":null},"logprobs":null,"finish_reason":"tool_calls","stop_reason":null,"token_ids":null,"routed_experts":null}],"service_tier":null,"system_fingerprint":"vllm-0.32.0-1980f723","usage":{"prompt_tokens":31,"total_tokens":34,"completion_tokens":3,"prompt_tokens_details":{"cached_tokens":0,"created_cache_tokens":0,"multimodal_tokens":null},"completion_tokens_details":null},"prompt_logprobs":null,"prompt_token_ids":null,"prompt_text":null,"kv_transfer_params":null,"ec_transfer_params":null,"metrics":null}"""  # noqa: E501 - a recorded line, kept whole

WHOLE_COMPLETION = """\
{"id":"cmpl-b63c5d01acc9fbd9","object":"text_completion","created":1794712132,"model":"smollm2","choices":[{"index":0,"text":" industry take","logprobs":null,"finish_reason":"length","stop_reason":null,"token_ids":null,"prompt_logprobs":null,"prompt_token_ids":null,"routed_experts":null}],"service_tier":null,"system_fingerprint":"vllm-0.32.0-1980f723","usage":{"prompt_tokens":31,"total_tokens":33,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":0,"created_cache_tokens":null,"multimodal_tokens":null},"completion_tokens_details":null},"kv_transfer_params":null,"ec_transfer_params":null,"metrics":null}"""  # noqa: E501 - a recorded line, kept whole

USAGE = AnswerUsage(prompt_tokens=31)
TOOL_ID = "chatcmpl-tool-9db129864f388ec0"


def _request(options: str, *, is_chat: bool = True) -> EngineRequest:
    prompt = '"messages":[{"role":"user","content":"hi"}]' if is_chat else '"prompt":"hi"'
    body = f'{{"model":"smollm2",{prompt},"stream":true{options}}}'.encode()
    return (read_chat if is_chat else read_completion)(body, Served("smollm2", 8192))


@pytest.mark.parametrize(
    ("recorded", "options", "answers", "head"),
    [
        (
            TWO_CHOICES_WITH_USAGE,
            ',"stream_options":{"include_usage":true,"continuous_usage_stats":true}',
            [
                ScriptedAnswer(
                    pieces=["Car", " Mar"], finish_reason="length", ends_with_piece=True
                ),
                ScriptedAnswer(pieces=["hey", ","], finish_reason="length", ends_with_piece=True),
            ],
            ("chatcmpl-846414758f68c27b", 1794712120),
        ),
        (
            TOOL_CALL,
            # Asking for continuous usage without usage gives none, as in vLLM.
            ',"stream_options":{"continuous_usage_stats":true}',
            [
                ScriptedAnswer(
                    pieces=[],
                    finish_reason="tool_calls",
                    tool_calls=[ScriptedToolCall(name="f", pieces=['{"', "}"])],
                )
            ],
            ("chatcmpl-9e4e552801f4c16f", 1794712128),
        ),
        (
            OWN_END_WITH_USAGE,
            ',"stream_options":{"include_usage":true}',
            [ScriptedAnswer(pieces=["?"], finish_reason="stop")],
            ("chatcmpl-b9713fc67615ddbd", 1794712301),
        ),
        (
            COMPLETION_WITH_USAGE,
            ',"stream_options":{"include_usage":true}',
            [ScriptedAnswer(pieces=["-", "packed"], finish_reason="length", ends_with_piece=True)],
            ("cmpl-87b6add010e1283a", 1794712132),
        ),
    ],
)
def test_streamed_bytes_are_those_of_vllm(
    recorded: str, options: str, answers: list[ScriptedAnswer], head: tuple[str, int]
) -> None:
    is_chat = head[0].startswith("chatcmpl")
    request = _request(options, is_chat=is_chat)
    chunks = ChunkWriter(*head, "smollm2", is_chat=is_chat)
    stream = TokenStream(request, chunks, USAGE, is_chat=is_chat)
    sent = b"".join(stream.events(answers, [[TOOL_ID] for _ in answers]))
    assert sent.decode() == recorded.replace("vllm-0.32.0-1980f723", FINGERPRINT)


@pytest.mark.parametrize(
    ("recorded", "answer", "head"),
    [
        (
            WHOLE_TOOL_CALL,
            ScriptedAnswer(
                pieces=[],
                finish_reason="tool_calls",
                tool_calls=[ScriptedToolCall(name="f", pieces=['{"a": "x"}'])],
            ),
            ("chatcmpl-ad262110c9944edd", 1794712121),
        ),
        (
            WHOLE_COMPLETION,
            ScriptedAnswer(
                pieces=[" industry", " take"], finish_reason="length", ends_with_piece=True
            ),
            ("cmpl-b63c5d01acc9fbd9", 1794712132),
        ),
    ],
)
def test_whole_bytes_are_those_of_vllm(
    recorded: str, answer: ScriptedAnswer, head: tuple[str, int]
) -> None:
    is_chat = head[0].startswith("chatcmpl")
    choice = whole_choice(0, answer, ["chatcmpl-tool-b7740460a81a6ee4"], is_chat=is_chat)
    usage = USAGE.final(answer.completion_tokens, is_stream=False, is_chat=is_chat)
    sent = whole_answer(*head, "smollm2", choice, usage, is_chat=is_chat)
    assert sent.decode() == recorded.replace("vllm-0.32.0-1980f723", FINGERPRINT)


def test_error_body_is_that_of_vllm() -> None:
    recorded = (
        '{"error":{"message":"The model `nope` does not exist. Valid aliases: smollm2.",'
        '"type":"NotFoundError","param":"model","code":404}}'
    )
    message = "The model `nope` does not exist. Valid aliases: smollm2."
    assert error_body(404, message, "model").decode() == recorded


def test_lies_replace_what_every_usage_says() -> None:
    usage = AnswerUsage(prompt_tokens=31, overrides={"completion_tokens": 999})
    assert b'"completion_tokens":999' in usage.running(1, is_chat=True)
    assert b'"completion_tokens":999' in usage.final(1, is_stream=True, is_chat=True)
