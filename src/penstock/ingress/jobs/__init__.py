"""Takes in flex work: single jobs, queued requests and batches."""
