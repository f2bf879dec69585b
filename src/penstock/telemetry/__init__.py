"""Logs and metrics for the operator: one log line and a few plain counters per request."""
