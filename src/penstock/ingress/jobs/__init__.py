"""Takes in requests that may wait: flex, queued requests and batches."""
