"""Runs code that nobody trusts, each container with a Python kernel that keeps its state.

Promises: code reaches no network, no file of the host and no other container; memory, processes,
CPU, disk, output and time of a container are bounded; nothing that a kernel reports is trusted.
"""
