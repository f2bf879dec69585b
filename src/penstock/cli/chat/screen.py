"""Shows the playground's answers as they arrive, and a line of figures after each."""

from typing import Final, Self

import msgspec
from rich.console import Console
from rich.markup import escape

from penstock.cli.chat.answer_events import Piece
from penstock.cli.chat.conversation import Conversation, Totals, TurnUsage
from penstock.cli.chat.slash import HELP
from penstock.cli.chat.word_wrap import WordWrap
from penstock.cli.dollars import exact_usd

_NO_CONTROLS: Final = dict.fromkeys(
    code for code in (*range(0x20), *range(0x7F, 0xA0)) if chr(code) not in "\n\t"
)


class AnswerText:
    """Prints an answer as it arrives; reasoning and tools are not part of `answer`."""

    def __init__(self, out: Console) -> None:
        self._out = out
        self._wrap = WordWrap(out.width)
        self._last: Piece | None = None
        self.answer = ""

    def __enter__(self) -> Self:
        return self

    def add(self, piece: Piece) -> None:
        # A model's text is not trusted: it must not move the cursor or reach the clipboard.
        text = piece.text.translate(_NO_CONTROLS)
        last = self._last
        if last is not None and _style(last) != _style(piece):
            # What tools did ends with the end of a line.
            self._show(self._wrap.end() + self._wrap.feed("\n" if last.is_tool else "\n\n"))
        self._last = piece
        if _style(piece) is None:
            self.answer += piece.text
        self._show(self._wrap.feed(text))

    def __exit__(self, *raised: object) -> None:
        self._show(self._wrap.end() + "\n")

    def _show(self, text: str) -> None:
        style = None if self._last is None else _style(self._last)
        self._out.print(text, style=style, markup=False, end="", soft_wrap=True)


def _style(piece: Piece) -> str | None:
    if piece.is_tool:
        return "cyan"
    return "dim italic" if piece.is_thought else None


class TurnTimes(msgspec.Struct):
    """When an answer began and ended, in seconds after its request."""

    first_seconds: float | None = None
    total_seconds: float = 0.0


def figures_line(usage: TurnUsage, times: TurnTimes, moved_to: str = "") -> str:
    """Return a line with tokens, cached tokens, speed and cost of one turn."""
    facts = [
        f"{_count(usage.prompt_tokens)} prompt ({_cached(usage)})",
        f"{_count(usage.output_tokens)} output",
    ]
    if times.first_seconds is not None:
        facts.append(f"first token {times.first_seconds:.2f} s")
        streaming = times.total_seconds - times.first_seconds
        if usage.output_tokens is not None and usage.output_tokens > 1 and streaming > 0:
            facts.append(f"{(usage.output_tokens - 1) / streaming:.0f} tokens/s")
    facts.append("cost unknown" if usage.cost_usd is None else exact_usd(usage.cost_usd))
    if moved_to:
        facts.append(f"moved to replica {moved_to[-4:]}")
    return " · ".join(facts)


def totals_line(totals: Totals) -> str:
    known = totals.prompt_tokens_known
    share = f"{totals.cached_tokens / known:.0%}" if known else "none"
    turns = "1 turn" if totals.turns == 1 else f"{totals.turns} turns"
    return (
        f"{turns} · {totals.prompt_tokens:,} prompt tokens, {share} of them cached · "
        f"{totals.output_tokens:,} output tokens · {_cost(totals)}"
    )


def print_welcome(out: Console, conversation: Conversation) -> None:
    out.print(f"[bold]{escape(conversation.model)}[/]  session {conversation.session}")
    out.print("[dim]/help lists the commands, Ctrl-D ends.[/]\n")


def print_help(out: Console) -> None:
    width = max(map(len, HELP))
    for command, what in HELP.items():
        out.print(f"  [bold]{escape(command):{width}}[/]  {what}")
    out.print()


def _cost(totals: Totals) -> str:
    cut = totals.turns_without_cost
    if not cut:
        return exact_usd(totals.cost_usd)
    if cut == totals.turns:
        return "cost unknown"
    return f"{exact_usd(totals.cost_usd)} and {cut} of unknown cost"


def _count(tokens: int | None) -> str:
    return "unknown" if tokens is None else f"{tokens:,}"


def _cached(usage: TurnUsage) -> str:
    if usage.cached_tokens is None:
        return "cached unknown"
    if not usage.prompt_tokens:
        return "0 cached"
    return f"{usage.cached_tokens:,} cached, {usage.cached_tokens / usage.prompt_tokens:.0%}"
