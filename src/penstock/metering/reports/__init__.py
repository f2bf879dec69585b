"""Reports of usage and cost from the ledger, and the export of a period's charges.

This package only reads, and every answer has a size limit.
"""
