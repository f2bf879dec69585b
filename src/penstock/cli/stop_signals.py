"""SIGTERM, Ctrl-C and a closed terminal as something that can be waited for."""

import asyncio
import signal

_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class StopSignals:
    """Counts how often this process was asked to end. Made inside the loop that shall hear it."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        # Asked twice: whoever asks does not want to wait for streams.
        self.hurried = asyncio.Event()
        # Asked three times: leave now, whatever is left behind.
        self.abandoned = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in _SIGNALS:
            loop.add_signal_handler(number, self.ask)

    def ask(self) -> None:
        for step in (self.asked, self.hurried, self.abandoned):
            if not step.is_set():
                step.set()
                return
