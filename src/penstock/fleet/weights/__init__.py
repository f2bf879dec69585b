"""Brings models' weights to this host before engines need them.

`fetch` is all of it for one source; `fetch_loop` is what a keeper runs. Guarantees: a folder counts
as complete only when every file of the source is there whole; a fetch that was cut goes on where it
stopped; two processes never fetch one source at once.
"""
