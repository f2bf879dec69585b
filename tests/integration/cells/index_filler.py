"""Fills a prefix index with prompts of five links until it is full, then with many more.

Prints as JSON how far its memory grew by each. A program of its own, so that nothing else counts.
"""

import json
import random
import sys
from pathlib import Path

from penstock.routing.prefix.index import PrefixIndex, ReplicaPrefixes

REPLICAS = 64
LINKS = 5


def resident_bytes() -> int:
    line = next(
        line
        for line in Path("/proc/self/status").read_text().splitlines()
        if line.startswith("VmRSS:")
    )
    return int(line.split()[1]) * 1024


def fill(
    index: PrefixIndex, replicas: list[ReplicaPrefixes], chance: random.Random, links: int
) -> None:
    """Conversations on shared system prompts, each link new but the first two."""
    tokens = (300,) * LINKS
    systems = [(chance.getrandbits(62) | 1, chance.getrandbits(62) | 1) for _ in range(500)]
    for number in range(links // (LINKS - 2)):
        prefixes = replicas[number % REPLICAS]
        new = [chance.getrandbits(62) | 1 for _ in range(LINKS - 2)]
        index.add(prefixes, (*systems[number % len(systems)], *new), tokens)


def main() -> None:
    links_max = int(sys.argv[1])
    chance = random.Random(1)
    before = resident_bytes()
    index = PrefixIndex(links_max, 8, 16)
    replicas = [index.prefixes_of(number + 1, 1e12) for number in range(REPLICAS)]
    fill(index, replicas, chance, int(links_max * 1.05))
    full = resident_bytes()
    fill(index, replicas, chance, 400_000)
    figures = {
        "links": len(index),
        "bytes_held": index.bytes_held(),
        "grown_full": full - before,
        "grown_after": resident_bytes() - before,
    }
    print(json.dumps(figures))


main()
