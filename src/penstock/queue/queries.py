"""Reads this room's SQL statements from its `.sql` files."""

from functools import partial

from penstock.store import read_queries as read_named

read_queries = partial(read_named, "penstock.queue")
