"""The usage that an answer reports: the same counts, as each of vLLM's APIs writes them."""

import msgspec

from penstock.testing.scripted_engine.scripted_answers import ScriptedAnswer


class AnswerUsage(msgspec.Struct, frozen=True):
    """Usage of one answer; `overrides` are a script's false values for every usage sent."""

    prompt_tokens: int
    cached_tokens: int = 0
    created_tokens: int = 0
    overrides: dict[str, object] | None = None
    # False if the script turns usage off.
    is_told: bool = True

    def running(
        self, completion_tokens: int, prompt_tokens: int | None = None, *, is_chat: bool
    ) -> bytes:
        """`,"usage":{…}` of every chunk with continuous_usage_stats."""
        rest: dict[str, object] = {"completion_tokens_details": None} if is_chat else {}
        return self._field(completion_tokens, rest, prompt_tokens)

    def final(self, completion_tokens: int, *, is_stream: bool, is_chat: bool) -> bytes:
        """`,"usage":{…}` of the last chunk, or of an answer that is not streamed."""
        details: dict[str, object] = {"cached_tokens": self.cached_tokens}
        if is_chat or not is_stream:
            details["created_cache_tokens"] = self.created_tokens if is_chat else None
        if not is_stream:
            details["multimodal_tokens"] = None
        rest: dict[str, object] = {"prompt_tokens_details": details}
        if not is_stream:
            rest["completion_tokens_details"] = None
        return self._field(completion_tokens, rest)

    def of_response(self, answer: ScriptedAnswer) -> dict[str, object]:
        """`usage` of `/v1/responses`: cached tokens are among the input tokens."""
        output = answer.completion_tokens
        return {
            "input_tokens": self.prompt_tokens,
            "input_tokens_details": {
                "cached_tokens": self.cached_tokens,
                "cache_write_tokens": self.created_tokens,
                "input_tokens_per_turn": [],
                "cached_tokens_per_turn": [],
            },
            "output_tokens": output,
            "output_tokens_details": {
                "reasoning_tokens": len(answer.reasoning),
                "tool_output_tokens": 0,
                "output_tokens_per_turn": [],
                "tool_output_tokens_per_turn": [],
            },
            "total_tokens": self.prompt_tokens + output,
            **(self.overrides or {}),
        }

    def of_message_start(self) -> dict[str, object]:
        """`usage` at the start of a `/v1/messages` stream: the whole prompt, cached or not."""
        return {"input_tokens": self.prompt_tokens, "output_tokens": 0}

    def of_message(self, answer: ScriptedAnswer) -> dict[str, object]:
        """`usage` of `/v1/messages`: input tokens neither read from the cache nor written to it."""
        fresh = self.prompt_tokens - self.cached_tokens - self.created_tokens
        return {
            "input_tokens": max(fresh, 0),
            "output_tokens": answer.completion_tokens,
            "cache_creation_input_tokens": self.created_tokens,
            "cache_read_input_tokens": self.cached_tokens,
            **(self.overrides or {}),
        }

    def of_embeddings(self) -> dict[str, object]:
        """`usage` of `/v1/embeddings`, which does not report cached tokens."""
        return {
            "prompt_tokens": self.prompt_tokens,
            "total_tokens": self.prompt_tokens,
            "completion_tokens": 0,
            "prompt_tokens_details": None,
            "completion_tokens_details": None,
            **(self.overrides or {}),
        }

    def _field(
        self, completion_tokens: int, rest: dict[str, object], prompt_tokens: int | None = None
    ) -> bytes:
        prompt = self.prompt_tokens if prompt_tokens is None else prompt_tokens
        usage = {
            "prompt_tokens": prompt,
            "total_tokens": prompt + completion_tokens,
            "completion_tokens": completion_tokens,
            **rest,
            **(self.overrides or {}),
        }
        return b',"usage":' + msgspec.json.encode(usage)
