"""OpenAI's agents SDK with tools that the server runs: the code interpreter, and an MCP server."""

from typing import Any

from agents import (
    Agent,
    CodeInterpreterTool,
    HostedMCPTool,
    OpenAIResponsesModel,
    Runner,
    set_tracing_disabled,
)
from openai import AsyncOpenAI
from tests.acceptance.clients.python.given import KEY, MODEL, PROMPT, URL, answer

# Traces would go to api.openai.com, whatever the base URL is.
set_tracing_disabled(True)
client = AsyncOpenAI(base_url=f"{URL}/v1", api_key=KEY)
model = OpenAIResponsesModel(MODEL, openai_client=client)
SUMS: Any = {"type": "mcp", "server_label": "sums", "require_approval": "always"}


def code() -> object:
    """Two turns of a conversation that the client keeps itself."""
    tool = CodeInterpreterTool({"type": "code_interpreter", "container": {"type": "auto"}})
    agent = Agent(name="A", model=model, tools=[tool])
    first = Runner.run_sync(agent, PROMPT)
    again = 'CALL python {"code": "print(x + 1)"}'
    second = Runner.run_sync(agent, [*first.to_input_list(), {"role": "user", "content": again}])
    return [_told(done) for done in (first, second)]


def approve() -> object:
    return _with_callback({"approve": True})


def reject() -> object:
    return _with_callback({"approve": False, "reason": "Not today."})


def interrupt() -> object:
    """The run stops at the request for approval, and goes on once a person has approved."""
    agent = Agent(name="A", model=model, tools=[HostedMCPTool(SUMS)])
    stopped = Runner.run_sync(agent, PROMPT)
    (asked,) = stopped.interruptions
    state = stopped.to_state()
    state.approve(asked)
    return {"asked": asked.name, **_told(Runner.run_sync(agent, state))}


def _with_callback(verdict: Any) -> object:
    asked = []

    def decide(request: Any) -> Any:
        asked.append([request.data.server_label, request.data.name, request.data.arguments])
        return verdict

    tool = HostedMCPTool(SUMS, on_approval_request=decide)
    done = Runner.run_sync(Agent(name="A", model=model, tools=[tool]), PROMPT)
    return {"asked": asked, **_told(done)}


def _told(done: Any) -> dict[str, Any]:
    items = [item.to_dict() for each in done.raw_responses for item in each.output]
    return {"items": items, "text": done.final_output}


if __name__ == "__main__":
    answer({"code": code, "approve": approve, "reject": reject, "interrupt": interrupt})
