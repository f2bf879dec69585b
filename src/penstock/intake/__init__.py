"""From headers and a body to an InferenceRequest, without HTTP."""
