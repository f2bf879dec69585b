"""Submits jobs, keeps their large values, and measures the queue."""
