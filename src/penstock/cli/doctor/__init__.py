"""`penstock doctor`: checks all that an installation depends on, and advises what to do."""
