"""`penstock chat`: a playground in the terminal."""
