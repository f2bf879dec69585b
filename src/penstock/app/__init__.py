"""The composition root: the only room that builds the others and joins them.

One file for each process: a gateway worker, a keeper, control. Nothing is imported here: no process
needs what the others are made of.
"""
