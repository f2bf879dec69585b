"""What rooms hand each other: small frozen records, no behaviour beyond their own arithmetic."""
