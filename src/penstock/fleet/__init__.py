"""Replicas: launched or taken over, watched, drained, and listed in the roster that gateways read.

observe → plan (pure) → act, once a heartbeat. `reconcile.py` is the loop; open it first. This file
imports nothing: every replica's supervisor loads it, and must stay small.
"""
