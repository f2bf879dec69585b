"""An engine for tests that speaks like vLLM and fails when told to."""
