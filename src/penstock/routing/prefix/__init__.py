"""The prefix index, in flat numbers that mypyc reads in place (ADR 23). The way in is index.py.

Only this folder uses librt's vecs. Its specification is the plain model of dicts that the tests
compare it with, tests/unit/routing/prefix/index_model.py.
"""
