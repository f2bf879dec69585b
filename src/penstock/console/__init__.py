"""Administration of a cell: operations, and the listener that serves them to operators' keys."""
