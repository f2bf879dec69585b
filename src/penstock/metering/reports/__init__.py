"""What was used and what it cost, asked of the ledger: reports, and the export of a period.

It only reads, and everything it answers is bounded.
"""
