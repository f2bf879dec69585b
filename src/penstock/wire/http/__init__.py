"""Reads and writes parts of HTTP as bytes."""
