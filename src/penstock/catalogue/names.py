"""Checks model names: ids and aliases have one syntax, in catalogue entries and in requests."""

import re

NAME_CHARACTERS_MAX = 256
DEFAULT_NAME = "default"

# The character class excludes the slash, so that matching is linear in the name's length.
_WELL_FORMED = re.compile(r"[A-Za-z0-9@._:-]+(?:/[A-Za-z0-9@._:-]+)*")
_FOREIGN = re.compile(r"[^A-Za-z0-9@._:/-]")


def fault_in(name: str) -> str:
    """Return why `name` cannot be a model's name; empty when it can."""
    if not name:
        return "it is empty"
    if len(name) > NAME_CHARACTERS_MAX:
        return f"it is longer than {NAME_CHARACTERS_MAX} characters"
    if _WELL_FORMED.fullmatch(name):
        return ""
    if _FOREIGN.search(name):
        return "only letters, digits and @ . _ : / - may be in it"
    return "a slash may only stand between two parts"
