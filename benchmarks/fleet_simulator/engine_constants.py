"""How fast a simulated engine is, and how much it holds. Assumed, not measured."""

import msgspec


class EngineConstants(msgspec.Struct, frozen=True):
    """A step takes `step + prefill · tokens + decode · sequences + kv · tokens held` seconds.

    The defaults stand for a Kimi-class model on eight H200.
    """

    step_seconds: float = 0.018
    prefill_seconds_per_token: float = 1 / 16_000
    decode_seconds_per_sequence: float = 0.0001
    kv_seconds_per_token: float = 15e-9
    kv_tokens: int = 600_000
    # What one step computes at most, and how many sequences run at once.
    budget_tokens: int = 8192
    sequences_max: int = 128

    @property
    def seconds_per_prompt_token(self) -> float:
        """Of an engine that does nothing but prefill."""
        return self.prefill_seconds_per_token + self.step_seconds / self.budget_tokens

    def described(self) -> str:
        return (
            f"step = {self.step_seconds * 1e3:g} ms"
            f" + {self.prefill_seconds_per_token * 1e6:g} us x prefill tokens"
            f" + {self.decode_seconds_per_sequence * 1e3:g} ms x decodes"
            f" + {self.kv_seconds_per_token * 1e9:g} ns x KV tokens;"
            f" KV {self.kv_tokens:,} tokens, budget {self.budget_tokens:,},"
            f" at most {self.sequences_max} sequences"
        )
