"""`penstock bench`: drive an OpenAI-compatible address and say how it answered."""
