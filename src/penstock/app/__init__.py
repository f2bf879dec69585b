"""The composition root: the only room that builds the others and joins them.

Each process has its own files: a gateway worker, a keeper, control. This file imports nothing,
because no process needs the parts of another.
"""
