"""`penstock usage`: what was used and what it cost, as tables, JSON, CSV and Parquet."""
