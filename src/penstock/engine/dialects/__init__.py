"""How each kind of engine wants a request said."""
