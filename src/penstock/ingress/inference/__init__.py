"""Serves inference requests and shapes their answers."""
