"""Runs the code that a model writes in a container, and says what came of it."""

from contextlib import aclosing, suppress
from typing import Final, Protocol

import msgspec

from penstock.clock import new_id
from penstock.errors import (
    BudgetSpent,
    ContainerBusy,
    ContainerExpired,
    Error,
    SandboxUnavailable,
    StoreUnavailable,
)
from penstock.tools import (
    AccountContainer,
    CodeCalls,
    ContainerBook,
    ContainerFile,
    ContainerWish,
    CopiedFiles,
)
from penstock.tools.container_ids import shown_container, shown_file
from penstock.tools.mcp.result_text import capped_text
from penstock.tools.sandbox_hosts import read_memory
from penstock.turns.tool_offers import TurnTools
from penstock.wire.apis.response_items import Item
from penstock.wire.apis.server_tools import AutoContainer
from penstock.wire.resources.sandbox import (
    CallLine,
    ContainerLost,
    Failed,
    Output,
    ShownValue,
    WholePicture,
)

# What an item shows of the output; the model is told less.
_SHOWN_BYTES_MAX: Final = 2**20
# The names of the files that a call made.
_NAMES_BYTES_MAX: Final = 4096
_NOT_RUN: Final = (ContainerBusy, SandboxUnavailable, StoreUnavailable)
# What the model is told.
_STATE_LOST: Final = "(The earlier container has ended: its variables and files are gone.)\n"
_NO_SANDBOX: Final = "The code was not run: {}"
_ENDED: Final = "its container has ended."
_LOST: Final = "\n(The container was ended: {}. Its variables and files are gone.)"


class GivenFiles(Protocol):
    """A port: copies uploaded files into a container."""

    async def put(self, container: AccountContainer, file_id: str) -> ContainerFile: ...


class CodeOutcome(msgspec.Struct, frozen=True):
    """What came of one call: for the model, for the item, and the files that it made."""

    told: str
    outputs: list[Item] = []
    # The container that it ran in; "" if it did not run.
    container: str = ""
    files: list[Item] = []
    is_failed: bool = False


class TurnCode:
    """Runs code of turns. One call at a time in a container."""

    def __init__(self, book: ContainerBook, calls: CodeCalls, given: GivenFiles) -> None:
        self._book = book
        self._calls = calls
        self._given = given

    async def container_for(self, tools: TurnTools) -> AccountContainer | CodeOutcome:
        """Return the turn's container, started now if it has none; or why there is none."""
        if tools.container is not None:
            return tools.container
        if tools.has_own_container:
            return CodeOutcome(_NO_SANDBOX.format(_ENDED), is_failed=True)
        try:
            tools.container = await self._start(tools)
        except BudgetSpent:
            raise
        except Error as error:
            return CodeOutcome(_NO_SANDBOX.format(error.message), is_failed=True)
        return tools.container

    async def run(self, tools: TurnTools, call_id: str, code: str) -> CodeOutcome:
        """Run code in the turn's container. What goes wrong is told to the model."""
        try:
            return await self._run(tools, call_id, code)
        except ContainerExpired as expired:
            # It ended just now, and the code has not run.
            tools.container, tools.is_state_lost = None, True
            if tools.has_own_container:
                return CodeOutcome(_NO_SANDBOX.format(expired.message), is_failed=True)
        found = await self.container_for(tools)
        if isinstance(found, CodeOutcome):
            return found
        try:
            return await self._run(tools, call_id, code)
        except ContainerExpired as expired:
            tools.container, tools.is_state_lost = None, True
            return CodeOutcome(_NO_SANDBOX.format(expired.message), is_failed=True)

    async def _run(self, tools: TurnTools, call_id: str, code: str) -> CodeOutcome:
        if tools.container is None:
            return CodeOutcome(_NO_SANDBOX.format(_ENDED), is_failed=True)
        printed = _Printed(tools.container)
        if tools.is_state_lost:
            printed.text.append(_STATE_LOST)
        try:
            running = self._calls.run_code(tools.container, call_id, code)
            async with aclosing(running) as lines:
                async for line in lines:
                    if isinstance(line, WholePicture):
                        await self._keep_picture(printed, line)
                    else:
                        printed.take(line)
        except (BudgetSpent, ContainerExpired):
            raise
        except _NOT_RUN as error:
            # The container is as it was, unless its host is gone.
            if isinstance(error, SandboxUnavailable) and not await self._is_there(
                printed.container
            ):
                tools.container, tools.is_state_lost = None, True
            told, id = _NO_SANDBOX.format(error.message), shown_container(printed.container.id)
            return CodeOutcome(told, container=id, is_failed=True)
        except Error as error:
            printed.text.append(_LOST.format(error.message.rstrip(".")))
            printed.is_lost = printed.is_failed = True
        tools.is_state_lost = False
        if printed.is_lost:
            tools.container = None
        return printed.outcome()

    async def _is_there(self, container: AccountContainer) -> bool:
        try:
            return await self._book.usable(container.account, container.id) is not None
        except StoreUnavailable:
            return True

    async def _start(self, tools: TurnTools) -> AccountContainer:
        asked = None if tools.code is None else tools.code.container
        auto = asked if isinstance(asked, AutoContainer) else AutoContainer()
        wish = ContainerWish(memory_mb=read_memory(auto.memory_limit))
        container = await self._book.create(tools.account, wish)
        try:
            for file_id in auto.file_ids or ():
                await self._given.put(container, file_id)
        except BaseException:
            # Nobody would use it, and it would be charged until it is idle.
            with suppress(StoreUnavailable):
                await self._book.end_and_forget(container)
            raise
        return container

    async def _keep_picture(self, printed: "_Printed", picture: WholePicture) -> None:
        """Keep a figure as a file of the container, where callers and later turns find it."""
        path = f"figure-{new_id()[-8:]}.png"
        try:
            file = await self._book.files.keep(printed.container, path, picture.data, "assistant")
        except Error as error:
            printed.text.append(f"(A figure could not be kept: {error.message})\n")
            return
        printed.add_picture(file)


class _Printed:
    """Collects what one call puts out."""

    def __init__(self, container: AccountContainer) -> None:
        self.container = container
        self.text: list[str] = []
        self.pictures: list[Item] = []
        self.files: list[Item] = []
        self.is_lost = self.is_failed = False

    def take(self, line: CallLine | CopiedFiles) -> None:
        match line:
            case Output():
                self.text.append(line.text)
            case ShownValue(media="text/plain"):
                self.text.append(f"{line.text}\n")
            case Failed():
                self.is_failed = True
                self.text.append(line.text)
            case CopiedFiles():
                self.files += [self._cited(file) for file in line.files]
                self.text += [f"[{path} could not be kept]\n" for path in line.left_out]
            case ContainerLost():
                self.is_lost = self.is_failed = True
                self.text.append(_LOST.format(line.reason))

    def add_picture(self, file: ContainerFile) -> None:
        self.text.append(f"[{file.path} shows the figure]\n")
        self.files.append(self._cited(file))
        url = (
            f"/v1/containers/{shown_container(file.container)}/files/{shown_file(file.id)}/content"
        )
        self.pictures.append({"type": "image", "url": url})

    def outcome(self) -> CodeOutcome:
        text = "".join(self.text)
        made = ", ".join(dict.fromkeys(str(file["filename"]) for file in self.files))
        told = text or "(It printed nothing.)"
        if made:
            told += f"\n[Files made: {capped_text(made, _NAMES_BYTES_MAX)}]"
        logs: list[Item] = [{"type": "logs", "logs": capped_text(text, _SHOWN_BYTES_MAX)}]
        return CodeOutcome(
            told,
            [*(logs if text else []), *self.pictures],
            shown_container(self.container.id),
            self.files,
            self.is_failed,
        )

    def _cited(self, file: ContainerFile) -> Item:
        return {
            "type": "container_file_citation",
            "container_id": shown_container(file.container),
            "file_id": shown_file(file.id),
            "filename": file.path,
            "start_index": 0,
            "end_index": 0,
        }
