"""Bodies of the endpoints that are not inference."""
