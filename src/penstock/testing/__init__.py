"""Helpers for tests: an engine that follows a script, and a clock that a test moves."""

from penstock.testing.manual_clock import ManualClock
from penstock.testing.scripted_engine.engine_process import EngineState, ScriptedEngine

__all__ = ["EngineState", "ManualClock", "ScriptedEngine"]
