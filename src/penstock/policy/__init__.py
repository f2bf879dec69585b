"""Who may do what: accounts, keys, and the decision that gives a request its grant.

Promises: no database on a request's path; secrets are kept only as hashes; a revoked key or a
blocked account is refused by every gateway within 5 s. It knows no limits, prices or replicas.
"""

from penstock.policy.accounts import AccountBook
from penstock.policy.authorize import authorize
from penstock.policy.cell_secret import cell_mark, read_cell_secret, signal_key
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
    "signal_key",
]
