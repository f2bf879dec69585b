"""`penstock chat`: talk to a model in the terminal, and see what every turn used and cost."""

import base64
import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape

from penstock.catalogue.names import DEFAULT_NAME
from penstock.cli.chat.answer_events import AnswerEvents
from penstock.cli.chat.chat_tools import ChatTools
from penstock.cli.chat.conversation import IMAGE_BYTES_MAX, Conversation
from penstock.cli.chat.gateway_stream import RESPONSES, GatewayStream
from penstock.cli.chat.saved_files import CitedFile, safe_name, save_files
from penstock.cli.chat.screen import (
    AnswerText,
    TurnTimes,
    figures_line,
    print_help,
    print_welcome,
    totals_line,
)
from penstock.cli.chat.slash import Slash, Typed, understand
from penstock.cli.chat.tool_events import ToolEvents
from penstock.cli.exit_codes import CommandFailed
from penstock.cli.keyboard import unseen_typing
from penstock.cli.options import DEFAULT_STATE, StateOption, invocation
from penstock.cli.output import console
from penstock.cli.running_gateway import KeyFileOption, UrlOption, gateway_url, read_secret
from penstock.clock import SystemClock, new_id
from penstock.errors import Error

_PROMPT = "[bold cyan]>[/] "


def chat(  # noqa: PLR0913 - each is an option of the command line
    context: typer.Context,
    *,
    model: Annotated[
        str, typer.Option(help="The model to talk to; the first of the gateway's if not given.")
    ] = "",
    system: Annotated[str, typer.Option(help="The system prompt.")] = "",
    session: Annotated[
        str, typer.Option(help="The session's name, to go on where its cache is; else a new one.")
    ] = "",
    max_tokens: Annotated[
        int, typer.Option(min=0, max=1_000_000, help="The longest answer; 0 is the model's own.")
    ] = 0,
    url: UrlOption = "",
    key_file: KeyFileOption = None,
    state: StateOption = DEFAULT_STATE,
) -> None:
    """Talk to a model, and see tokens, cached tokens and cost after each turn."""
    config = invocation(context).load().config
    gateway = GatewayStream(gateway_url(url, config, state), read_secret(key_file, state))
    chosen = model or _first_model(gateway)
    named = session or _new_session()
    talk = Conversation(chosen, named, system=system, max_tokens=max_tokens)
    Playground(gateway, talk, console()).run(_lines(sys.stdin.isatty()))


class Playground:
    """Runs one conversation on one screen."""

    def __init__(self, gateway: GatewayStream, talk: Conversation, out: Console) -> None:
        self._gateway = gateway
        self._talk = talk
        self._out = out
        self._clock = SystemClock()
        self._tools = ChatTools()
        # Files that answers have cited and that were not saved yet.
        self._files: list[CitedFile] = []

    def run(self, lines: Iterator[str]) -> None:
        """Answer each line, until the lines end or one is /quit."""
        print_welcome(self._out, self._talk)
        for line in lines:
            try:
                typed = understand(line)
            except ValueError:
                self._warn(f"{line.split()[0]} is no command: /help lists them.")
                continue
            if typed is None:
                continue
            if typed.command is Slash.QUIT:
                break
            # A failed turn is not kept, so that the user can send it again.
            try:
                self._obey(typed)
            except (CommandFailed, Error) as failure:
                self._warn(str(failure))
            except KeyboardInterrupt:
                self._warn("Stopped before anything was answered.")
        if self._talk.totals.turns:
            self._out.print(f"[dim]{totals_line(self._talk.totals)}[/]")

    def _obey(self, typed: Typed) -> None:
        if typed.command is None:
            self._say(typed.text)
        elif typed.command is Slash.MODEL:
            self._choose(typed.text)
        elif typed.command is Slash.SYSTEM:
            self._set_system(typed.text)
        elif typed.command is Slash.IMAGE:
            self._attach(typed.text)
        elif typed.command is Slash.TOOLS:
            self._switch(typed.text)
        elif typed.command is Slash.FILES:
            self._save(typed.text)
        elif typed.command is Slash.NEW:
            self._files.clear()
            self._talk.restart(_new_session())
            self._note(f"session {self._talk.session}")
        else:
            print_help(self._out)

    def _say(self, text: str) -> None:
        asked_at = self._clock.monotonic()
        times = TurnTimes()
        # Ctrl-C stops the answer, not the conversation, which keeps the part received.
        with (
            self._ask(text) as events,
            contextlib.suppress(KeyboardInterrupt),
            unseen_typing(),
            AnswerText(self._out) as shown,
        ):
            for piece in events:
                if times.first_seconds is None:
                    times.first_seconds = self._clock.monotonic() - asked_at
                shown.add(piece)
        times.total_seconds = self._clock.monotonic() - asked_at
        items = None
        if isinstance(events, ToolEvents):
            items = events.items
            self._take(events.files)
        self._talk.said(text, shown.answer, events.usage, items)
        self._note(figures_line(events.usage, times, self._gateway.moved_to))

    @contextlib.contextmanager
    def _ask(self, text: str) -> Iterator[AnswerEvents | ToolEvents]:
        session = self._talk.session
        if not self._tools:
            with self._gateway.answer(self._talk.body(text), session) as lines:
                yield AnswerEvents(lines)
            return
        body = self._talk.tool_body(text, self._tools.entries())
        with self._gateway.answer(body, session, RESPONSES) as lines:
            yield ToolEvents(lines)

    def _switch(self, text: str) -> None:
        had_code = self._tools.has_code
        self._tools.obey(text)
        if self._tools.has_code and not had_code:
            try:
                self._gateway.try_sandbox()
            except (CommandFailed, Error):
                self._tools.obey("code off")
                raise
        self._note(self._tools.shown())

    def _take(self, files: list[CitedFile]) -> None:
        if files:
            self._files += files
            names = ", ".join(safe_name(file.filename) for file in files)
            self._note(f"made {names}: /files FOLDER saves")

    def _save(self, folder: str) -> None:
        if not folder or not self._files:
            names = ", ".join(safe_name(file.filename) for file in self._files)
            self._note(f"files: {names or 'none'}")
            return
        for path in save_files(self._files, Path(folder).expanduser(), self._gateway.download):
            self._note(f"saved {path}")
        self._files.clear()

    def _choose(self, name: str) -> None:
        models = self._gateway.models()
        if name in {*models, DEFAULT_NAME}:
            self._talk.model = name
        elif name:
            self._warn(f"{name} is not one of: {', '.join(models)}")
            return
        for model in models:
            mark = "[bold green]→[/]" if model == self._talk.model else " "
            self._out.print(f"{mark} {escape(model)}")
        self._out.print()

    def _set_system(self, text: str) -> None:
        if text:
            self._talk.system = "" if text == "-" else text
        self._note(f"system: {self._talk.system or 'none'}")

    def _attach(self, name: str) -> None:
        try:
            path = Path(name).expanduser()
            if path.stat().st_size > IMAGE_BYTES_MAX:
                raise CommandFailed(f"{path} is larger than {IMAGE_BYTES_MAX // 2**20} MB.")
            self._talk.attach(path.name, base64.b64encode(path.read_bytes()).decode())
        except (OSError, ValueError, RuntimeError) as failure:
            raise CommandFailed(str(failure)) from None
        self._note(f"{path.name} goes with the next message ({self._talk.images} in all)")

    def _note(self, text: str) -> None:
        self._out.print(f"[dim]{escape(text)}[/]\n")

    def _warn(self, text: str) -> None:
        self._out.print(f"[red]{escape(text)}[/]\n")


def _lines(is_terminal: bool) -> Iterator[str]:
    """Yield typed lines until Ctrl-D; Ctrl-C discards the current line."""
    if not is_terminal:
        yield from sys.stdin
        return
    with contextlib.suppress(ImportError):
        # Turns on line editing and history; a Python without readline still reads lines.
        import readline  # noqa: F401, PLC0415 - importing it is what turns it on
    out = console()
    while True:
        try:
            yield out.input(_PROMPT)
        except EOFError:
            out.print()
            return
        except KeyboardInterrupt:
            out.print()


def _first_model(gateway: GatewayStream) -> str:
    models = gateway.models()
    if not models:
        raise CommandFailed("The gateway has no model for this key.")
    return models[0]


def _new_session() -> str:
    return f"chat-{new_id()}"
