"""The `penstock` command: one file or folder per command group, under `commands.py`.

Commands combine what the rooms offer and decide nothing that a room could decide. This file
imports nothing, because every gateway worker loads it and must stay small.
"""
