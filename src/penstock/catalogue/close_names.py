"""Suggests the known name that an unknown name was probably meant to be."""

from collections.abc import Iterable


def closest(name: str, known: Iterable[str]) -> list[str]:
    """Return the known name most similar to `name`, or an empty list if none is similar."""
    # Imported only when a name is wrong: difflib takes 0.4 MB in every worker.
    from difflib import get_close_matches  # noqa: PLC0415 - see above

    return get_close_matches(name, list(known), n=1)
