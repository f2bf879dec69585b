"""The `penstock` command: one file or folder per command group, under `commands.py`.

It composes what the rooms offer and decides nothing that a room could decide. It imports nothing
here: every gateway worker loads this file, and must stay small.
"""
