"""Unix datagrams between one host's workers and keepers: each has a socket in a shared folder.

Sending never waits: a peer whose queue is full misses a message; the next two messages repeat its
prompts. A message that the kernel accepts is in the peer's queue and cannot be lost in transit.
"""

import asyncio
import contextlib
import logging
import re
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Final

from penstock.signals.counts import Drop, SignalCounts
from penstock.signals.settings import SignalsSettings

# Messages read at once before other tasks of the event loop get their turn.
_READ_AT_ONCE: Final = 64
_BUFFER_BYTES: Final = 2**20

logger = logging.getLogger(__name__)


class LocalSockets:
    """Sends to every socket in the folder that is named after this installation's `cell`."""

    def __init__(
        self, settings: SignalsSettings, cell: str, sender: int, counts: SignalCounts
    ) -> None:
        self.is_up = False
        self._folder = Path(settings.folder)
        self._path = self._folder / f"{cell:.8}-{sender:016x}.sock"
        self._pattern = re.compile(re.escape(f"{cell:.8}") + r"-[0-9a-f]{16}\.sock")
        self._bytes_max = settings.message_bytes_max
        self._peers_max = settings.peers_max
        self._counts = counts
        self._socket: socket.socket | None = None
        # One socket per peer, so that a stopped peer's unread messages cannot fill a shared buffer.
        self._peers: dict[str, socket.socket] = {}
        # The peers of the last send. A peer that is new or returned has missed earlier messages.
        self._told: list[str] = []
        self._hear: Callable[[bytes], None] | None = None

    async def run(self, hear: Callable[[bytes], None]) -> None:
        """Receive until cancelled."""
        self._hear = hear
        try:
            self._listen()
            await asyncio.get_running_loop().create_future()
        finally:
            self._hear = None
            self._stop_listening()
            self._path.unlink(missing_ok=True)
            for peer in self._peers.values():
                peer.close()
            self._peers.clear()

    def send(self, data: bytes) -> bool:
        """Send to all peers; return whether they are the same as last time and all received it."""
        if self._hear is not None and not (self._socket and self._path.exists()):
            # The folder was missing or was cleaned up, so peers cannot find this socket.
            self._listen()
        found = self._find_peers()
        is_sure = found == self._told
        self._told = found
        for name in found:
            is_sure &= self._send_to(name, data)
        return is_sure

    def _listen(self) -> None:
        self._stop_listening()
        made = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            # A dead worker that had this table column before may have left its socket.
            self._path.unlink(missing_ok=True)
            made.bind(str(self._path))
            self._path.chmod(0o600)
        except OSError as wrong:
            made.close()
            extra = {"action": "signals_not_heard", "error": str(wrong)}
            logger.warning("cannot listen for signals", extra=extra)
            return
        asyncio.get_running_loop().add_reader(made.fileno(), self._read)
        self._socket = made
        self.is_up = True

    def _stop_listening(self) -> None:
        if self._socket is not None:
            asyncio.get_running_loop().remove_reader(self._socket.fileno())
            self._socket.close()
        self._socket = None
        self.is_up = False

    def _read(self) -> None:
        for _ in range(_READ_AT_ONCE):
            if self._socket is None or self._hear is None:
                return
            try:
                # One byte more than the limit, so that a longer message is recognised as such.
                data = self._socket.recv(self._bytes_max + 1)
            except BlockingIOError:
                return
            except OSError:
                # The next send creates a new socket.
                self._stop_listening()
                return
            self._hear(data)

    def _find_peers(self) -> list[str]:
        try:
            names = [path.name for path in self._folder.iterdir()]
        except OSError:
            return []
        found = [
            name for name in names if self._pattern.fullmatch(name) and name != self._path.name
        ]
        for name in self._peers.keys() - set(found):
            self._forget(name)
        for _ in found[self._peers_max :]:
            self._counts.drop(Drop.TOO_MANY)
        # Sorted, so that `send` can compare it with the previous list.
        return sorted(found)[: self._peers_max]

    def _send_to(self, name: str, data: bytes) -> bool:
        """Send to one peer; return whether it received this message on its existing connection."""
        try:
            if self._send_on(self._peers.get(name), data):
                return True
            # The peer is new, or died; another process may own a socket of the same name by now.
            self._forget(name)
            self._connect(name).send(data)
        except BlockingIOError:
            self._counts.drop(Drop.QUEUE_FULL)
        except ConnectionRefusedError:
            # The socket's owner is dead.
            with contextlib.suppress(OSError):
                (self._folder / name).unlink(missing_ok=True)
        except OSError:
            self._forget(name)
            self._counts.drop(Drop.NOT_SENT)
        return False

    @staticmethod
    def _send_on(peer: socket.socket | None, data: bytes) -> bool:
        if peer is None:
            return False
        try:
            peer.send(data)
        except (ConnectionRefusedError, ConnectionResetError, BrokenPipeError):
            return False
        return True

    def _connect(self, name: str) -> socket.socket:
        made = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        try:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _BUFFER_BYTES)
            made.connect(str(self._folder / name))
        except OSError:
            made.close()
            raise
        self._peers[name] = made
        return made

    def _forget(self, name: str) -> None:
        peer = self._peers.pop(name, None)
        if peer is not None:
            peer.close()
