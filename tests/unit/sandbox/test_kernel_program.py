"""Parts of the kernel's program that a container cannot show, because its calls are fewer."""

import os
import stat
from pathlib import Path

import pytest

from penstock.sandbox.kernel_program import _opened


def test_a_named_pipe_is_refused_at_once(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(OSError, match="not a regular file"), _opened(pipe, os.O_RDONLY):
        pass
    # Nobody reads it, so the kernel itself refuses a writer that does not wait.
    with pytest.raises(OSError, match="No such device"), _opened(pipe, os.O_WRONLY):
        pass


def test_a_file_is_made_for_its_owner_to_write(tmp_path: Path) -> None:
    path = tmp_path / "file"
    with _opened(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC) as file:
        file.write(b"ab")
    with _opened(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND) as file:
        file.write(b"c")
    with _opened(path, os.O_RDONLY) as file:
        assert file.read() == b"abc"
    assert stat.S_IMODE(path.stat().st_mode) & 0o600 == 0o600
