"""A command in a terminal of fixed size, for tests that look at what a person would see.

It runs in a tmux server of its own. `lines` is the screen as text, `picture` the same as a PNG,
drawn by headless Chromium without a network.
"""

import io
import os
import shlex
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

import pytest
from rich.ansi import AnsiDecoder
from rich.cells import cell_len
from rich.console import Console
from rich.terminal_theme import TerminalTheme

CHROMIUM = "/usr/bin/chromium"
_CALL_SECONDS = 20.0
_DRAW_SECONDS = 60.0
_LOOK_SECONDS = 0.1
# Pixels of a character of the page below.
_WIDTH, _HEIGHT, _EDGE = 8.5, 19, 16
_PAGE = """<!doctype html><meta charset="utf-8"><style>
body {{ margin: {edge}px; background: #16181d; color: #d8dee9; }}
pre {{ margin: 0; font: 14px/{height}px "DejaVu Sans Mono", monospace; }}
</style><pre>{code}</pre>"""

_COLOURS = TerminalTheme(
    (22, 24, 29),
    (216, 222, 233),
    [
        *((59, 66, 82), (224, 108, 117), (152, 195, 121), (229, 192, 123)),
        *((97, 175, 239), (198, 120, 221), (86, 182, 194), (216, 222, 233)),
    ],
    [
        *((92, 99, 112), (240, 128, 137), (172, 215, 141), (249, 212, 143)),
        *((117, 195, 255), (218, 140, 241), (106, 202, 214), (255, 255, 255)),
    ],
)


class Terminal:
    """`with Terminal(tmp_path, [*PENSTOCK, "bench", url]) as terminal:`, ended with the block."""

    def __init__(
        self,
        folder: Path,
        command: Sequence[str],
        *,
        columns: int = 100,
        rows: int = 40,
        variables: Mapping[str, str] | None = None,
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._columns, self._rows = columns, rows
        # A socket's path is short, whatever the test is called.
        self._socket = f"/tmp/picture-{os.getpid()}-{id(self):x}.sock"
        self._code_file = folder / "exit_code"
        words = [f"{name}={value}" for name, value in (variables or {}).items()]
        plain = ("env", "-u", "COLUMNS", "-u", "LINES", "COLORTERM=truecolor")
        line = shlex.join([*plain, *words, *command])
        # The trap keeps the shell itself from ending at a Ctrl-C that is meant for the command.
        self._command = f"trap : INT; {line}; echo $? > {shlex.quote(str(self._code_file))}"

    def __enter__(self) -> Self:
        self._code_file.unlink(missing_ok=True)
        size = ("-x", str(self._columns), "-y", str(self._rows))
        wanted = {
            "remain-on-exit": "on",
            "remain-on-exit-format": "",
            "status": "off",
            "default-terminal": "tmux-256color",
        }
        options = [w for pair in wanted.items() for w in ("set", "-g", *pair, ";")]
        start = ("new-session", "-d", *size, "-c", str(self._folder), self._command)
        self._tmux("start-server", ";", *options, *start)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._tmux("kill-server")
        Path(self._socket).unlink(missing_ok=True)

    @property
    def lines(self) -> list[str]:
        """The screen as it is now."""
        return self._capture("-p").splitlines()

    @property
    def exit_code(self) -> int | None:
        """None while the command runs."""
        if self._tmux("display", "-p", "#{pane_dead}").strip() != "1":
            return None
        # A pane is dead when all that was written has been read; tmux then knows the exit code only
        # if it was told of the end in time, so the shell writes it down.
        return int(self._code_file.read_text())

    def press(self, *keys: str) -> None:
        """As tmux names them: `Enter`, `C-c`, or text."""
        self._tmux("send-keys", *keys)

    def wait_for(self, mark: str, seconds: float) -> list[str]:
        """The first screen that shows `mark`."""
        deadline = time.monotonic() + seconds
        has_ended = False
        while time.monotonic() < deadline and not has_ended:
            # Asked first: what it said last is on the screen by then.
            has_ended = self.exit_code is not None
            lines = self.lines
            if any(mark in line for line in lines):
                return lines
            time.sleep(_LOOK_SECONDS)
        how = "and it has ended" if has_ended else f"after {seconds} s"
        pytest.fail(f"no {mark!r} {how} on:\n" + "\n".join(self.lines))

    def wait_for_end(self, seconds: float) -> int:
        """The command's exit code."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            code = self.exit_code
            if code is not None:
                return code
            time.sleep(_LOOK_SECONDS)
        pytest.fail(f"it still runs after {seconds} s:\n" + "\n".join(self.lines))

    def check_layout(self) -> None:
        """No line is wrapped by the terminal or cut short, and there is no traceback."""
        # One capture, with wrapped lines joined: a screen that is being drawn has changed by the
        # second, and a line that was wrapped is then longer than the terminal is wide.
        for line in self._capture("-pJ").splitlines():
            assert cell_len(line.rstrip()) <= self._columns, line
            assert "…" not in line, line
            assert "Traceback" not in line, line

    def picture(self, path: Path) -> Path:
        """The screen as it is now, drawn."""
        ink = Console(
            record=True, width=self._columns, file=io.StringIO(), color_system="truecolor"
        )
        # All of it by one decoder: tmux says a colour once, also where it lasts for many lines.
        for line in AnsiDecoder().decode(self._capture("-pe")):
            ink.print(line, soft_wrap=True)
        page = self._folder / f"{path.stem}.html"
        code = ink.export_html(theme=_COLOURS, inline_styles=True, code_format="{code}")
        page.write_text(_PAGE.format(edge=_EDGE, height=_HEIGHT, code=code))
        width = int(self._columns * _WIDTH) + 2 * _EDGE
        height = self._rows * _HEIGHT + 2 * _EDGE
        subprocess.run(
            [
                *(CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"),
                "--disable-background-networking",
                f"--user-data-dir={self._folder / 'chromium'}",
                f"--window-size={width},{height}",
                f"--screenshot={path}",
                page.as_uri(),
            ],
            check=True,
            capture_output=True,
            timeout=_DRAW_SECONDS,
        )
        return path

    def _capture(self, flags: str) -> str:
        return self._tmux("capture-pane", flags)

    def _tmux(self, *words: str) -> str:
        done = subprocess.run(
            ["tmux", "-S", self._socket, "-f", "/dev/null", *words],
            capture_output=True,
            text=True,
            check=True,
            timeout=_CALL_SECONDS,
        )
        return done.stdout
