"""What an operator can see: one log line and a few plain counters per request."""
