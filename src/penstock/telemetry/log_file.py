"""Opens files for the logs of child processes, so that only their owner can read them."""

import os
from pathlib import Path
from typing import IO

_OWNER_ONLY = 0o600


def open_log(path: Path, *, is_new: bool = False) -> IO[bytes]:
    """Open a log for appending, with mode 0600 even if it exists; `is_new` empties it."""
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | (os.O_TRUNC if is_new else 0)
    descriptor = os.open(path, flags, _OWNER_ONLY)
    os.fchmod(descriptor, _OWNER_ONLY)
    return os.fdopen(descriptor, "ab")
