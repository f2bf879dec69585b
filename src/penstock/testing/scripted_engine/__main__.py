"""Runs the scripted engine: `python -m penstock.testing.scripted_engine --port 0 --model NAME`."""

from penstock.testing.scripted_engine.engine_server import main

main()
