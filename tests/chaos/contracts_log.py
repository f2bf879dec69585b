"""The log of decisions as its commands see it: heads held outside, verified, and tampered with."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import psycopg
from tests.integration.cells.gateway_process import CHILD_ENVIRONMENT
from tests.integration.contracts.decision_worker import tamper

from penstock.contracts.decision_book import OPERATORS

_COMMAND_SECONDS = 300.0
# Of a chain that is tampered with; the row lies well inside.
_ROWS_MIN = 20
_ROW = 7
_CHAINS = """
    select holder::text, max(sequence) from decisions where keep = 'long' and holder <> %s
    group by 1 having max(sequence) >= %s order by 2 desc
"""
_PLACE = "keep = 'long' and holder = '{holder}' and sequence"
_FLIP = f"update decisions set reason = upper(reason) || '!' where {_PLACE} = {_ROW}"
_DELETE = f"delete from decisions where {_PLACE} = {_ROW}"
_DELETE_TAIL = f"delete from decisions where {_PLACE} = {{last}}"
# The two rows change places; no row may have another's number meanwhile.
_REORDER = f"""
    update decisions set sequence = 2^40 where {_PLACE} = {_ROW};
    update decisions set sequence = {_ROW} where {_PLACE} = {_ROW + 1};
    update decisions set sequence = {_ROW + 1} where {_PLACE} = 2^40;
"""


class Verified(msgspec.Struct):
    """What `penstock decisions verify --json` says: rows, and the places of its faults."""

    rows: int
    heads: int
    faults: list[dict[str, Any]]

    @property
    def places(self) -> set[tuple[str, int]]:
        return {(each["holder"], each["sequence"]) for each in self.faults}


class DecisionCommands:
    """Runs `penstock` as an operator who has the database's address."""

    def __init__(self, folder: Path, dsn: str, catalogue: Path) -> None:
        self._folder = folder
        self._dsn = dsn
        self._environment = {
            **CHILD_ENVIRONMENT,
            "PENSTOCK_STORE_DSN": dsn,
            "PENSTOCK_CATALOGUE_FOLDER": str(catalogue),
        }
        self.heads_file = folder / "heads.jsonl"

    def apply_contracts(self, contracts: Path) -> None:
        self._run("contracts", "apply", str(contracts), "--message", "before the kills")

    def hold_heads(self) -> None:
        """Write the heads of all chains where nobody who owns the database gets at them."""
        line = json.loads(self._run("decisions", "heads", "--json"))
        with self.heads_file.open("a") as file:
            file.write(json.dumps(line) + "\n")

    def verify(self, *, has_heads: bool = True) -> Verified:
        heads = ("--heads", str(self.heads_file)) if has_heads else ()
        text = self._run("decisions", "verify", *heads, "--json", may_fail=True)
        return msgspec.json.decode(text, type=Verified)

    def unseen_tampering(self) -> list[str]:
        """Tamper with four chains in four ways; which of them `verify` does not find."""
        with psycopg.connect(self._dsn) as connection:
            chains = connection.execute(_CHAINS, (OPERATORS, _ROWS_MIN)).fetchmany(4)
        assert len(chains) == 4, f"too few chains to tamper with: {chains}"
        ways = {"a flipped byte": _FLIP, "a deleted row": _DELETE, "a reordered pair": _REORDER}
        places = {}
        for (how, statement), (holder, _) in zip(ways.items(), chains, strict=False):
            tamper(self._dsn, statement.format(holder=holder))
            places[how] = (holder, _ROW)
        holder, last = chains[-1]
        tamper(self._dsn, _DELETE_TAIL.format(holder=holder, last=last))
        alone, beside = self.verify(has_heads=False).places, self.verify().places
        unseen = [f"{how}: {place}" for how, place in places.items() if place not in alone]
        if (holder, last) not in beside or (holder, last) in alone:
            unseen.append(f"a deleted tail: {holder}, {last}")
        return unseen

    def _run(self, *arguments: str, may_fail: bool = False) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "penstock", *arguments],
            check=False,
            capture_output=True,
            text=True,
            timeout=_COMMAND_SECONDS,
            cwd=self._folder,
            env=self._environment,
        )
        # 1 says that `verify` found something.
        if done.returncode not in ((0, 1) if may_fail else (0,)):
            raise RuntimeError(f"{arguments} failed: {done.stdout[-1000:]}{done.stderr[-1000:]}")
        return done.stdout
