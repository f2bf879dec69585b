"""What we ship for tests: an engine that follows a script, and a clock that a test moves."""

from penstock.testing.engine_process import EngineState, ScriptedEngine
from penstock.testing.manual_clock import ManualClock

__all__ = ["EngineState", "ManualClock", "ScriptedEngine"]
