"""`penstock decisions`: shows and verifies the log of what contracts decided and operators did."""
