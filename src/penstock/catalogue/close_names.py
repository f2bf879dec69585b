"""What an operator may have meant by a name that there is not."""

from collections.abc import Iterable


def closest(name: str, known: Iterable[str]) -> list[str]:
    """The known name that is most like it, if one is; it may be none."""
    # Only for a mistake: it would take 0.4 MB of every worker.
    from difflib import get_close_matches  # noqa: PLC0415 - see above

    return get_close_matches(name, list(known), n=1)
