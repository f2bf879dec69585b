"""Flex work for this keeper's replicas: claim by measured headroom, run down the path, complete.

Promises: what is wanted now goes first on every replica but for a small reserved share; a job whose
lease is lost is stopped quietly and bills nothing. It decides nothing about replicas themselves.
"""
