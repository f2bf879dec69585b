"""The prefix index, stored as flat integers for mypyc (ADR 23). Open index.py first.

Only this folder uses librt's vecs. Its specification is the dict-based model that the tests
compare it with, tests/unit/routing/prefix/index_model.py.
"""
