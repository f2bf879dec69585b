"""Pages of the API that are not inference."""
