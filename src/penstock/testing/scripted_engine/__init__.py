"""An engine for tests that imitates vLLM's APIs and fails as a script directs."""
