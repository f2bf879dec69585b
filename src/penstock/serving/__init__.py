"""The path of a request. Open request_path.py first."""
