"""Launches or attaches replicas, watches and drains them, and lists them in the gateways' roster.

Each heartbeat runs observe → plan (pure) → act; start reading at the loop in `reconcile.py`. This
file imports nothing, because every replica's supervisor loads it and must stay small.
"""
