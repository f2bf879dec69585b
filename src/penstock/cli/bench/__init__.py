"""`penstock bench`: sends a load to an OpenAI-compatible address and measures the answers."""
