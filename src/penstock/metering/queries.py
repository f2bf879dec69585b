"""Loads the statements of ledger.sql, by name."""

from typing import Final

from penstock.store import read_queries

QUERIES: Final = read_queries("penstock.metering", "ledger.sql")
