"""What a script is told by its environment, what all scripts ask, and how they answer."""

import json
import os
from collections.abc import Callable, Mapping

_given = os.environ  # noqa: TID251 - a client's script, outside of the product

URL = _given["PENSTOCK_URL"]
KEY = _given["PENSTOCK_KEY"]
ACCOUNT = _given["PENSTOCK_ACCOUNT"]
MODEL = _given.get("MODEL", "@cf/moonshotai/kimi-k2.5")
# Which of OpenAI's two APIs, for clients that speak both.
API = _given.get("API", "chat")
PROMPT = _given.get("PROMPT", "Say hello.")
SESSION = _given.get("SESSION", "")
WORKFLOW = _given.get("WORKFLOW", "")
# A conversation that is kept on the server, by its id.
CONVERSATION = _given.get("CONVERSATION", "")
# One header is all that a client needs to have its conversation's cache kept.
HEADERS = {"x-session-affinity": SESSION} if SESSION else {}

# Long enough to fill a few blocks of the engine's prefix cache, as an agent's instructions do, and
# new with each session, so that a first turn finds nothing there.
INSTRUCTIONS = f"{SESSION}: " + "You answer questions about the weather and the tides. " * 8
TURNS = ("Is it raining in Porto?", "And tomorrow?")
# By these words the scripted engine calls the tool, as a large model would by itself.
TOOL_PROMPT = "CALL weather, then say what it is like there."


def weather(city: str) -> str:
    """The weather in a city."""
    return f"Rain in {city}."


def answer(cases: Mapping[str, Callable[[], object]]) -> None:
    """Run the case that was asked for, and print what the client made of it."""
    print(json.dumps(cases[_given["CASE"]]()))
