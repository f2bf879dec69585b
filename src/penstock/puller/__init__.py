"""Runs flex work on this keeper's replicas: claims jobs by measured headroom, runs, completes them.

Promises: live requests go first on every replica, except for a small reserved share; a job whose
claim is lost is stopped quietly and bills nothing. It decides nothing about replicas themselves.
"""
