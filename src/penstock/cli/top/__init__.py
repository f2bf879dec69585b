"""`penstock top`: watches the cell in a terminal."""
