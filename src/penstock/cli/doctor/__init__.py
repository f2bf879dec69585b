"""`penstock doctor`: looks at all that an installation stands on, and says what to do about it."""
