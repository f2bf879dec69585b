"""The path of a request through the other rooms. Open request_path.py first."""
