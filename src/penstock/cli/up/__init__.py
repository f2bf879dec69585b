"""`penstock up`: everything on one machine, by one command. `machine.py` is the order of it all."""
