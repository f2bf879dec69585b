"""Bodies of the pages that are not inference."""
