"""Parts of HTTP as bytes."""
