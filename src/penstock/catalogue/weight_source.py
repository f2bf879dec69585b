"""Checks where a recipe's weights come from, before a host tries to fetch them. Pure."""

import re
from pathlib import PurePosixPath
from typing import Final

_SOURCE_CHARACTERS_MAX: Final = 1000
_HUB: Final = re.compile(r"hf:[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*(@[A-Za-z0-9][\w./-]*)?", re.A)
_BUCKET: Final = re.compile(r"s3://[a-z0-9][a-z0-9.-]+[a-z0-9](/.*)?")


def fault_in_source(source: str) -> str:
    """Return what is wrong with a source; "" if nothing is."""
    if len(source) > _SOURCE_CHARACTERS_MAX or not source.isprintable():
        return "it is too long, or holds control characters"
    if ".." in PurePosixPath(source).parts:
        return "it holds `..`"
    if source.startswith("hf:"):
        return "" if _HUB.fullmatch(source) else "a Hugging Face model is hf:owner/name"
    if source.startswith("s3://"):
        return "" if _BUCKET.fullmatch(source) else "a bucket is s3://bucket/prefix"
    if not source.startswith("/"):
        return "a folder begins with /"
    return "" if source.strip("/") else "the root is no folder of weights"
