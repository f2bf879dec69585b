"""The dialects of engines: vLLM's own, and what any server that speaks OpenAI's API understands.

The `engine` room has one file for each. The roster keeps them as text.
"""

from typing import Final, Literal

Dialect = Literal["vllm", "openai"]
VLLM: Final[Dialect] = "vllm"
OPENAI: Final[Dialect] = "openai"
DIALECTS: Final[tuple[Dialect, ...]] = (VLLM, OPENAI)


def health_path(dialect: str) -> str:
    """Return the path that answers 200 while an engine serves: not every server has `/health`."""
    return "/health" if dialect == VLLM else "/v1/models"
