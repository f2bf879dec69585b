"""One page of the docs, followed from its first block to its last as a reader would.

Placeholders that pages agree on (an address, a key) are replaced by what runs beside the page.
"""

import collections
import json
import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import assert_never

from tests.acceptance.client_run import CLIENTS, ROOT, clients_folder
from tests.acceptance.docs_blocks import PROGRAMS, Block, BlockError, Page, Way, shell_lines
from tests.acceptance.docs_reading import compare, dry_run, read_block
from tests.acceptance.docs_shell import Done, Shell

ADDRESS = "127.0.0.1:8787"
KEY = "psk_…"
_SUFFIX = {"python": "py", "js": "mjs", "mjs": "mjs"}
_PROGRAM = {"python": "python", "js": "node", "mjs": "node"}


class PageRun:
    """`words` are the page's own words and what stands for them here."""

    def __init__(
        self, page: Page, shell: Shell, words: Mapping[str, str], *, seconds: float = 60.0
    ) -> None:
        self._page = page
        self._shell = shell
        self._words = dict(words)
        self._seconds = seconds
        self.printed = ""

    def follow(self) -> collections.Counter[Way]:
        """Every block, in order; how many were done in which way."""
        done: collections.Counter[Way] = collections.Counter()
        for block in self._page.blocks:
            self.do(block)
            done[block.way] += 1
        return done

    def do(self, block: Block) -> None:
        """One block. `printed` is then what the last one that ended has printed."""
        match block.way:
            case Way.RUN:
                self._run(block)
            case Way.READ if "answer" in block.marks:
                compare(block, self.printed)
            case Way.READ:
                read_block(block)
            case Way.DRY:
                dry_run(block)
            case Way.SHOWN:
                pass
            case _:
                assert_never(block.way)

    def _run(self, block: Block) -> None:
        if KEY in block.text:
            self._find_own_key()
        text = replaced(block.text, self._words | self._given(block))
        own = Block(block.page, block.line, block.language, text, block.marks)
        if "save" in block.marks:
            read_block(own)
            self._shell.save(text, block.marks["save"], self._seconds)
        elif "stays" in block.marks:
            self._shell.stay(shell_lines(own), block.marks["stays"], self._seconds)
        else:
            self._run_to_its_end(own)
        if "after" in block.marks:
            self._must(block, block.marks["after"])

    def _run_to_its_end(self, block: Block) -> None:
        text = self._command(block) if block.language in PROGRAMS else shell_lines(block)
        if "clients" in block.marks:
            text = f"{_clients_first()}\n{text}\nPATH=$PATH_BEFORE\n"
        wanted = int(block.marks.get("exit", "0"))
        done = self._shell.run(text, self._seconds, may_fail=wanted != 0)
        if done.status != wanted:
            raise BlockError(f"{block.name}: {done}\n--- the block\n{block.text}")
        self.printed = done.out
        self._shell.remember(done.out)

    def _command(self, block: Block) -> str:
        """Programs stand in the folder that the reader is in, where node looks for packages."""
        name = f"block-{block.line}.{_SUFFIX[block.language]}"
        self._shell.save(block.text, name, self._seconds)
        return f"{_PROGRAM[block.language]} {name}"

    def _given(self, block: Block) -> dict[str, str]:
        """What the mark `given: NAME=value` puts in NAME's place."""
        if "given" not in block.marks:
            return {}
        name = block.marks["given"].partition("=")[0]
        self._must(block, replaced(block.marks["given"], self._words))
        value = self._must(block, f'printf %s "${name}"').out
        if not value:
            raise BlockError(f"{block.name}: {name} was given nothing")
        return {name: value}

    def _find_own_key(self) -> None:
        """A page that starts its own cell gets its key where a reader would find it."""
        if KEY not in self._words:
            found = self._shell.run("cat .penstock/account.json", self._seconds)
            self._words[KEY] = json.loads(found.out)["secret"]

    def _must(self, block: Block, text: str) -> Done:
        done = self._shell.run(text, self._seconds)
        if done.status != 0:
            raise BlockError(f"{block.name}: {text}: {done}")
        return done


def replaced(text: str, words: Mapping[str, str]) -> str:
    """A name in capitals is replaced as a word, and not as a variable; anything else as it is."""
    for word, value in sorted(words.items(), key=lambda item: -len(item[0])):
        if word.isidentifier():
            text = value.join(re.split(rf"(?<![\w$])(?<!\$\{{){word}(?!\w)", text))
        else:
            text = text.replace(word, value)
    return text


def _clients_first() -> str:
    """Python and Node with the clients in them before all others, for one block."""
    python = clients_folder("python", ROOT / "requirements" / "clients.txt")
    node = clients_folder("node", CLIENTS / "node" / "package-lock.json") / "node_modules"
    paths = f"{_quoted(python / 'bin')}:{_quoted(node / '.bin')}"
    return (
        f"test -e node_modules || ln -s {_quoted(node)} node_modules\n"
        f"PATH_BEFORE=$PATH; PATH={paths}:$PATH"
    )


def _quoted(path: Path) -> str:
    return shlex.quote(str(path))
