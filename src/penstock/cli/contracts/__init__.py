"""`penstock contracts`: checks, compares, tests, applies and shows contracts of workflows."""
