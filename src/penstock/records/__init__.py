"""Records that rooms pass to each other: small, with no behaviour beyond their own arithmetic."""
