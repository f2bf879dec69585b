"""`penstock up`: runs everything on one machine. `machine.py` has the order of start and stop."""
