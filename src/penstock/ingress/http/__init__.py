"""A client's connection: parsing, limits on time and bytes, one request and its answer."""
