"""Builds an InferenceRequest from headers and a body, without HTTP."""
