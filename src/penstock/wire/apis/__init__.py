"""Requests and answers of the inference APIs."""
