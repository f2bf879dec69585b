"""Turns SIGTERM, Ctrl-C and a closed terminal into events to wait for."""

import asyncio
import signal

_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class StopSignals:
    """Counts signals to end this process. Create it inside the event loop that handles them."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        # Set by the second signal: do not wait for streams.
        self.hurried = asyncio.Event()
        # Set by the third signal: end now, whatever is left behind.
        self.abandoned = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in _SIGNALS:
            loop.add_signal_handler(number, self.ask)

    def ask(self) -> None:
        for step in (self.asked, self.hurried, self.abandoned):
            if not step.is_set():
                step.set()
                return
