"""Runs a request on one replica: connection, timeouts, and the engine's dialect."""
