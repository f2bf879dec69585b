"""Reads HTTP requests and writes answers; other rooms decide who may run what, when and where."""
