"""`penstock demo`: measures the effect of affinity and flex on this machine in three minutes."""
