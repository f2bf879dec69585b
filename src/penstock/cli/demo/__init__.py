"""`penstock demo`: what affinity and flex are worth, shown on this machine in three minutes."""
