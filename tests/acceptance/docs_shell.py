"""A terminal as a reader has it: one bash whose variables and folder stay from block to block.

Blocks that run on get a terminal of their own. Everything started here is ended here, by group.
"""

import contextlib
import os
import select
import shlex
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

_LOOK_SECONDS = 0.1
_STOP_SECONDS = 60.0


class Done(NamedTuple):
    """How a block ended, and what it printed."""

    status: int
    out: str
    err: str

    def __str__(self) -> str:
        return f"exit status {self.status}\n--- stdout\n{self.out}\n--- stderr\n{self.err}"


class Shell:
    """Blocks run one after another; one that fails ends the shell, as `set -e` says."""

    def __init__(
        self,
        folder: Path,
        scripts: Path,
        environment: Mapping[str, str],
        prefix: Sequence[str] = (),
    ) -> None:
        """`prefix` is what runs each bash elsewhere, such as in a namespace."""
        self._prefix = prefix
        self._scripts = scripts
        self._count = 0
        self._terminals: list[Terminal] = []
        self._process = subprocess.Popen(
            [*prefix, "bash", "--noprofile", "--norc"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=folder,
            env=environment,
            start_new_session=True,
        )
        self._type("set -eu -o pipefail; PRINTED=/dev/null")

    def run(self, text: str, seconds: float, *, may_fail: bool = False) -> Done:
        """Run it to its end. What may fail runs in a subshell, so that the shell lives on."""
        script = self._write(text)
        out, err = script.with_suffix(".out"), script.with_suffix(".err")
        streams = f"</dev/null >{out} 2>{err}"
        if may_fail:
            self._type(f"set +e; ( set -e; source {script} ) {streams}; echo $?; set -e")
        else:
            self._type(f"source {script} {streams}; echo $?")
        status = self._answer(seconds, text)
        return Done(status, out.read_text(), err.read_text())

    def stay(self, text: str, mark: str, seconds: float) -> None:
        """Start it in a terminal of its own, where this one is, and wait for the mark."""
        script = self._write(text)
        folder, variables = script.with_suffix(".pwd"), script.with_suffix(".env")
        done = self.run(f"pwd >{folder}; env -0 >{variables}", seconds)
        assert done.status == 0, done
        pairs = (pair.partition("=") for pair in variables.read_text().split("\0") if pair)
        environment = {name: value for name, _, value in pairs}
        place = Path(folder.read_text().strip())
        self._terminals.append(Terminal(script, place, environment, self._prefix))
        self._terminals[-1].wait_for(mark, seconds)

    def save(self, text: str, name: str, seconds: float) -> None:
        quoted = shlex.quote(name)
        copy = f'mkdir -p "$(dirname {quoted})"; cp {self._write(text)} {quoted}'
        done = self.run(copy, seconds)
        assert done.status == 0, done

    def remember(self, printed: str) -> None:
        """`$PRINTED` is the file with what a block has printed, for marks that look into it."""
        self._type(f"PRINTED={self._write(printed)}")

    def close(self) -> None:
        """Ctrl-C in every terminal; each must then end by itself, and well."""
        _kill_group(self._process)
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()
        endings = [terminal.stop() for terminal in reversed(self._terminals)]
        assert all(done.status == 0 for done in endings), "\n".join(map(str, endings))

    def _type(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()

    def _write(self, text: str) -> Path:
        self._count += 1
        script = self._scripts / f"block-{self._count}"
        script.write_text(text)
        return script

    def _answer(self, seconds: float, text: str) -> int:
        stdout = self._process.stdout
        assert stdout is not None
        if not select.select([stdout], [], [], seconds)[0]:
            raise AssertionError(f"still running after {seconds} s:\n{text}")
        line = stdout.readline()
        return int(line) if line else self._process.wait(_STOP_SECONDS)


class Terminal:
    """One block that runs on until Ctrl-C."""

    def __init__(
        self, script: Path, folder: Path, environment: Mapping[str, str], prefix: Sequence[str]
    ) -> None:
        self._out, self._err = script.with_suffix(".out"), script.with_suffix(".err")
        with self._out.open("w") as out, self._err.open("w") as err:
            self._process = subprocess.Popen(
                [*prefix, "bash", "-eu", "-o", "pipefail", str(script)],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                cwd=folder,
                env=environment,
                start_new_session=True,
            )

    def wait_for(self, mark: str, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while mark not in self._out.read_text() + self._err.read_text():
            assert self._process.poll() is None, self._done()
            assert time.monotonic() < deadline, f"no {mark!r} after {seconds} s\n{self._done()}"
            time.sleep(_LOOK_SECONDS)

    def stop(self) -> Done:
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGINT)
            try:
                self._process.wait(_STOP_SECONDS)
            except subprocess.TimeoutExpired:
                _kill_group(self._process)
        return self._done()

    def _done(self) -> Done:
        status = self._process.poll()
        return Done(-1 if status is None else status, self._out.read_text(), self._err.read_text())


def _kill_group(process: subprocess.Popen[str] | subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
