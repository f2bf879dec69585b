"""`penstock usage`: reports usage and cost as tables, JSON, CSV and Parquet."""
