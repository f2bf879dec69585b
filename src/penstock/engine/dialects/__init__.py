"""How each kind of engine expects a request."""
