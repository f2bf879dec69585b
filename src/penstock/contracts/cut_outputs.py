"""A worker's memory of outputs of tools that it has cut: a turn pays only for its new ones.

What is remembered changes no result. It is bounded; the least recently used goes first.
"""

import hashlib
from collections import OrderedDict
from collections.abc import Callable
from threading import Lock
from typing import Final

from penstock.contracts.cutting.output_cap import OutputCap
from penstock.contracts.settings import ContractsSettings

# What an entry takes beside its bytes, about.
_ENTRY_BYTES: Final = 400
_Key = tuple[str, str, int, float, bytes]


class CutOutput:
    """A content that was cut, and by how many bytes its texts are shorter.

    `content` is None where the texts turned out to be short enough.
    """

    def __init__(self, content: bytes | None, left_out: int) -> None:
        self.content = content
        self.left_out = left_out


class CutOutputs:
    """Remembers cut contents by a digest of the whole ones. Two threads may share it."""

    def __init__(self, settings: ContractsSettings | None = None) -> None:
        settings = ContractsSettings() if settings is None else settings
        self._bytes_max = settings.cut_bytes_max
        self.json_bytes_max = settings.cut_input_bytes_max
        self._found: OrderedDict[_Key, CutOutput] = OrderedDict()
        self._lock = Lock()
        self.bytes = 0
        # How many contents were cut, and not remembered.
        self.made = 0

    def find(
        self, account: str, cap: OutputCap, content: bytes, make: Callable[[], CutOutput]
    ) -> CutOutput:
        """Return what became of a content under a cap, by `make` if it is not remembered."""
        # Accounts share nothing, and so learn nothing of each other by the time that it takes.
        digest = hashlib.sha256(content).digest()
        key = (account, cap.owner, cap.bytes_max, cap.tail_share, digest)
        with self._lock:
            found = self._found.get(key)
            if found is not None:
                self._found.move_to_end(key)
                return found
        made = make()
        with self._lock:
            self.made += 1
            if key not in self._found:
                self._found[key] = made
                self.bytes += _size(made)
            while self.bytes > self._bytes_max:
                self.bytes -= _size(self._found.popitem(last=False)[1])
        return made


def _size(cut: CutOutput) -> int:
    return _ENTRY_BYTES + (0 if cut.content is None else len(cut.content))
