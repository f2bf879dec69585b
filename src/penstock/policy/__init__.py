"""Accounts, keys, and the authorisation that gives a request its grant.

Guarantees: a request with a known key needs no database; keys are stored only as hashes; every
gateway refuses a revoked key or blocked account within 5 s. It knows no limits, prices or replicas.
"""

from penstock.policy.accounts import AccountBook
from penstock.policy.authorize import authorize
from penstock.policy.cell_secret import (
    cell_mark,
    read_cell_secret,
    read_console_secret,
    signal_key,
)
from penstock.policy.key_mirror import KeyMirror
from penstock.policy.keys import KeyBook
from penstock.policy.settings import PolicySettings

__all__ = [
    "AccountBook",
    "KeyBook",
    "KeyMirror",
    "PolicySettings",
    "authorize",
    "cell_mark",
    "read_cell_secret",
    "read_console_secret",
    "signal_key",
]
