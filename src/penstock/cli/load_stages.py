"""Names the stage of an engine's start from its last log line, in words of our own.

The patterns are those of vLLM's messages. A line that says nothing about a stage keeps the last
one, so that a warning about something else does not become the news of the minute.
"""

import re
from typing import Final

FIRST_STAGE: Final = "starting its program"
# In the order of a start.
_STAGES: Final = (
    (r"Resolved architecture|Initializing a V1 LLM engine", "reading the model's configuration"),
    (r"Starting to load model|Loading weights|Loading \S+ checkpoint shards", "loading weights"),
    (r"Model loading took|torch\.compile|Dynamo bytecode|Compiling a graph", "compiling"),
    (r"KV cache (memory|size)|Maximum concurrency", "setting up its cache"),
    (r"[Cc]apturing (CUDA )?graph", "capturing graphs"),
    (r"Warming up", "warming up"),
    (r"init engine|Starting vLLM API server|startup complete", "opening its address"),
)
_PATTERNS: Final = tuple((re.compile(pattern), words) for pattern, words in _STAGES)
_PERCENT: Final = re.compile(r"(\d{1,3})%")


def stage_of(line: str) -> str | None:
    """Return the stage that a log line belongs to, with its percentage; None if it says none."""
    for pattern, words in _PATTERNS:
        if pattern.search(line):
            percent = _PERCENT.search(line)
            return f"{words}, {percent[1]} %" if percent else words
    return None
