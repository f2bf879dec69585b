"""The prefix index in memory: at most 96 bytes a link, and no more after a million prefixes."""

import subprocess
import sys
from pathlib import Path

import msgspec

PROGRAM = Path(__file__).parents[1] / "cells" / "index_filler.py"
LINKS_MAX = 2**20


class Filled(msgspec.Struct):
    """What the program says of itself."""

    links: int
    bytes_held: int
    grown_full: int
    grown_after: int


def test_million_links_cost_at_most_96_bytes_each_and_stay_so() -> None:
    done = subprocess.run(
        [sys.executable, str(PROGRAM), str(LINKS_MAX)], check=True, capture_output=True, timeout=55
    )
    filled = msgspec.json.decode(done.stdout, type=Filled)
    print(filled)
    assert filled.links == LINKS_MAX
    assert filled.bytes_held / LINKS_MAX <= 96
    # What the system has given, too: arrays that grow leave room behind them.
    assert filled.grown_full / LINKS_MAX <= 96
    # More than a million prefixes have come by then: new ones take the places of those before.
    assert filled.grown_after <= filled.grown_full * 1.05
