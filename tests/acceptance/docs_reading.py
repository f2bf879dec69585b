"""Blocks that are read instead of run: settings, entries, contracts, JSON, commands by hand."""

import re
import shlex
import subprocess
import tempfile
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
import typer
import typer.main
from tests.acceptance.docs_blocks import READ, SHELLS, Block, BlockError, shell_lines
from typer.exceptions import TyperException

from penstock.catalogue import CatalogueSettings, load_catalogue
from penstock.catalogue.entry import read_entry
from penstock.catalogue.models import BUILTIN_FOLDER
from penstock.cli.commands import app
from penstock.config import load, toml
from penstock.contracts.cases import parse_cases
from penstock.contracts.compiling import check_texts
from penstock.records.deployment import DeploymentSpec

_AND_SO_ON = "…"
_SEPARATORS = frozenset({"|", "||", "&", "&&", ";", ";;", "(", ")", "\n", "{", "}", "!"})
_ASSIGNMENT = re.compile(r"^[A-Za-z_]\w*=")


def read_block(block: Block) -> None:
    """Raises what the reader of its format raises, or BlockError."""
    if block.language == "toml":
        _read_toml(block)
    elif block.language in {"json", "jsonc"}:
        read_json(block.text)


def dry_run(block: Block) -> None:
    """Everything but the run: syntax, and every `penstock` command with its options."""
    if block.language == "ini":
        # A unit of systemd: what it starts is a command of ours.
        text = "\n".join(re.findall(r"^ExecStart=(.+)$", block.text, re.MULTILINE))
    elif block.language in SHELLS:
        text = shell_lines(block)
    elif block.language == "python":
        compile(block.text, block.name, "exec")
        return
    elif block.language in READ:
        read_block(block)
        return
    else:
        raise BlockError(f"{block.name}: {block.language} cannot be checked without a run")
    checked = subprocess.run(
        ["bash", "-n"], input=text, text=True, capture_output=True, check=False
    )
    if checked.returncode != 0:
        raise BlockError(f"{block.name}: {checked.stderr}")
    for arguments in penstock_commands(text):
        check_command(block.name, arguments)


def penstock_commands(text: str) -> Iterator[list[str]]:
    """The arguments of each `penstock` in a script, also behind `VARIABLE=value` and `sudo`."""
    for line in text.replace("\\\n", " ").splitlines():
        lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
        lexer.whitespace_split = True
        command: list[str] = []
        for word in [*lexer, "\n"]:
            if word not in _SEPARATORS:
                command.append(word)
                continue
            yield from _arguments_of(command)
            command = []


def check_command(place: str, arguments: list[str]) -> None:
    """Let the command line read the arguments, without doing anything."""
    command: Any = typer.main.get_command(app)
    context: Any = None
    name, rest = "penstock", list(arguments)
    try:
        while True:
            context = command.make_context(name, rest, parent=context)
            if not hasattr(command, "commands"):
                return
            rest = [*context._protected_args, *context.args]
            if not rest:
                return  # a group that does something by itself
            name, command, rest = command.resolve_command(context, rest)
    except typer.Exit:
        return  # --help and --version end here, having said it
    except TyperException as refused:
        said = f"penstock {shlex.join(arguments)}: {getattr(refused, 'message', refused)}"
        raise BlockError(f"{place}: {said}") from refused


def read_json(text: str) -> Any:
    """One document, or one on each line. `…` as the last of a list or an object is let through."""
    text = re.sub(r"^ *//.*$", "", text, flags=re.MULTILINE)
    text = re.sub(r",\s*…\s*\}", f', "{_AND_SO_ON}": null}}', text)
    text = re.sub(r",\s*…\s*\]", f', "{_AND_SO_ON}"]', text)
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        return [msgspec.json.decode(line) for line in text.splitlines() if line.strip()]


def compare(block: Block, printed: str) -> None:
    """What a page shows has the same keys, or the same columns, as what was printed just now."""
    if block.language in {"json", "jsonc"}:
        # What curl -i prints begins with a head.
        body = printed.rpartition("\r\n\r\n")[2]
        difference = unlike(read_json(block.text), read_json(body), "$")
        if difference:
            raise BlockError(f"{block.name}: {difference}\nprinted: {body}")
        return
    for shown in block.text.splitlines():
        if not any(_plain_words(shown) <= _plain_words(line) for line in printed.splitlines()):
            raise BlockError(f"{block.name}: no line like {shown!r} in:\n{printed}")


def unlike(shown: Any, real: Any, place: str) -> str | None:
    """The first place where the shapes differ. Null on either side is like anything."""
    if shown is None or real is None:
        return None
    if isinstance(shown, dict) and isinstance(real, Mapping):
        wanted = shown.keys() - {_AND_SO_ON}
        missing = wanted - real.keys()
        more = set() if _AND_SO_ON in shown else real.keys() - wanted
        if missing or more:
            return f"{place}: not answered: {sorted(missing)}; not shown: {sorted(more)}"
        found = (unlike(shown[name], real[name], f"{place}.{name}") for name in wanted)
        return next((difference for difference in found if difference), None)
    if isinstance(shown, list) and isinstance(real, list):
        pairs = zip(shown[:1], real[:1], strict=False)
        found = (unlike(one, other, f"{place}[0]") for one, other in pairs if one != _AND_SO_ON)
        return next((difference for difference in found if difference), None)
    same = _kind(shown) == _kind(real)
    return None if same else f"{place}: shown as {_kind(shown)}, answered as {_kind(real)}"


def _plain_words(line: str) -> set[str]:
    """A line's words but for those that differ from run to run: with digits, or cut short."""
    words = (word.strip(",;:.") for word in line.split())
    return {word for word in words if word and not re.search(r"[\d…]", word)}


def _kind(value: object) -> str:
    return "number" if isinstance(value, int | float) else type(value).__name__


def _read_toml(block: Block) -> None:
    document = tomllib.loads(block.text)
    if "deployment" in document:
        msgspec.convert(document["deployment"], dict[str, DeploymentSpec])
        return
    if "schema" in document:
        check_texts({block.name: block.text}, load_catalogue(CatalogueSettings()))
        return
    if "case" in document:
        parse_cases(block.text)
        return
    if "parse" in block.marks:
        tomllib.loads(block.text)
    elif "catalogue" not in block.marks:
        with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
            file.write(block.text)
            file.flush()
            load(Path(file.name), environ={})
    elif part_of := block.marks["catalogue"]:
        whole = tomllib.loads((BUILTIN_FOLDER / f"{part_of}.toml").read_text())
        whole |= tomllib.loads(block.text)
        read_entry("\n".join(f"{key} = {toml(value)}" for key, value in whole.items()))
    else:
        read_entry(block.text)


def _arguments_of(command: list[str]) -> Iterator[list[str]]:
    words = list(command)
    while words and (words[0] in {"sudo", "exec", "time"} or _ASSIGNMENT.match(words[0])):
        words.pop(0)
    if words and Path(words[0]).name == "penstock":
        yield words[1:]
