"""Cuts long outputs of tools. Pure: the same text and terms give the same bytes at every turn."""
