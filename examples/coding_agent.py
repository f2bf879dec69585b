"""A coding agent in one session: it lists, reads and writes files of a folder and runs its tests.

Each turn sends the whole conversation again, and the engine has nearly all of it in its cache. A
line says how much that was and what the turn cost. It stops at a budget.
"""

import json
import re
import secrets
import shlex
import subprocess
import sys
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any

import typer
from openai import BadRequestError, OpenAI
from openai.types.chat import ChatCompletion, ChatCompletionMessage
from openai.types.chat import ChatCompletionMessageFunctionToolCall as ToolCall
from rich.console import Console

# Nothing in here changes from turn to turn or from session to session, so that it stays cached.
INSTRUCTION = (
    "You are a careful programmer who works in one folder by its tools. Look before you write: "
    "list the files, read what matters, then write whole files. Run the tests after each change, "
    "and go on until they pass. When you are done, say in two sentences what you changed."
)
TURNS_MAX = 40
RESULT_CHARS_MAX = 12_000
TEST_SECONDS_MAX = 120.0
HIDDEN = re.compile(r"(^|/)(\.|__pycache__)")

console = Console(highlight=False, markup=False, soft_wrap=True)


class Workshop:
    """The tools. They read and write in one folder only; what its tests do is up to the tests."""

    def __init__(self, folder: Path, test_command: str) -> None:
        self._folder = folder.resolve(strict=True)
        self._test_command = shlex.split(test_command)

    def use(self, name: str, arguments: str) -> str:
        """What the tool says. A mistake is told to the model, which can then do better."""
        try:
            return self._use(name, json.loads(arguments))[:RESULT_CHARS_MAX]
        except (KeyError, OSError, TypeError, ValueError, subprocess.TimeoutExpired) as wrong:
            return f"error: {wrong!r}"

    def _use(self, name: str, given: dict[str, str]) -> str:
        match name:
            case "list_files":
                return self._listing()
            case "read_file":
                return self._inside(given["path"]).read_text()
            case "write_file":
                target = self._inside(given["path"])
                target.parent.mkdir(parents=True, exist_ok=True)
                return f"{target.write_text(given['text'])} characters written"
            case "run_tests":
                return self._test_report()
            case _:
                return f"error: there is no tool {name}"

    def _listing(self) -> str:
        paths = (str(path.relative_to(self._folder)) for path in self._folder.rglob("*.*"))
        return "\n".join(sorted(path for path in paths if not HIDDEN.search(path)))

    def _test_report(self) -> str:
        done = subprocess.run(  # noqa: S603 - the caller's own command
            self._test_command,
            cwd=self._folder,
            capture_output=True,
            text=True,
            timeout=TEST_SECONDS_MAX,
            check=False,
        )
        output = (done.stdout + done.stderr)[-RESULT_CHARS_MAX // 2 :]
        return f"exit code {done.returncode}\n{output}"

    def _inside(self, path: str) -> Path:
        target = (self._folder / path).resolve()
        if not target.is_relative_to(self._folder):
            raise ValueError(f"{path} is outside of the folder")
        return target


class Agent:
    """A conversation that goes on over several tasks, and what it has cost."""

    def __init__(self, client: OpenAI, model: str, workshop: Workshop, budget: Decimal) -> None:
        self._client = client
        self._model = model
        self._workshop = workshop
        self._budget = budget
        self._messages: list[Any] = [{"role": "system", "content": INSTRUCTION}]
        self.spent = Decimal(0)
        self.turns = self.prompt_tokens = self.cached_tokens = 0

    def work_on(self, task: str) -> None:
        """Until the model says something instead of using a tool."""
        self._messages.append({"role": "user", "content": task})
        while self.turns < TURNS_MAX:
            message = self._take_turn()
            # It goes back exactly as it came: a prefix that is changed is no longer cached.
            self._messages.append(message.to_dict())
            if not message.tool_calls:
                console.print(message.content, style="green")
                return
            for call in message.tool_calls:
                assert call.type == "function", "the others are not among our tools"
                self._answer(call)
        console.print(f"Stopped after {TURNS_MAX} turns.", style="yellow")

    def _take_turn(self) -> ChatCompletionMessage:
        left = max(self._budget - self.spent, Decimal(0))
        answer = self._client.chat.completions.with_raw_response.create(
            model=self._model,
            messages=self._messages,
            tools=TOOLS,
            # What might cost more is refused before it runs.
            extra_headers={"x-penstock-max-cost-usd": f"{left:f}"},
        )
        completion = answer.parse()
        self._count(completion, Decimal(answer.headers["x-penstock-cost-usd"]))
        return completion.choices[0].message

    def _count(self, completion: ChatCompletion, cost: Decimal) -> None:
        usage = completion.usage
        assert usage is not None
        details = usage.prompt_tokens_details
        cached = (details.cached_tokens if details else 0) or 0
        self.turns += 1
        self.prompt_tokens += usage.prompt_tokens
        self.cached_tokens += cached
        self.spent += cost
        console.print(
            f"turn {self.turns:>2}  prompt {usage.prompt_tokens:>6,}  cached {cached:>6,}"
            f"  output {usage.completion_tokens:>5,}  ${cost:.6f}  spent ${self.spent:.6f}"
        )

    def _answer(self, call: ToolCall) -> None:
        name, arguments = call.function.name, call.function.arguments
        said = self._workshop.use(name, arguments)
        console.print(f"  {name} {arguments[:60]} → {said[:60]!r}", style="dim")
        self._messages.append({"role": "tool", "tool_call_id": call.id, "content": said})


def _tool(name: str, description: str, **parameters: str) -> Any:  # noqa: ANN401 - the SDK's type
    """A tool whose parameters are strings, each with its description."""
    properties = {each: {"type": "string", "description": is_} for each, is_ in parameters.items()}
    schema = {"type": "object", "properties": properties, "required": list(parameters)}
    function = {"name": name, "description": description, "parameters": schema}
    return {"type": "function", "function": function}


# Always all of them, in this order: tools stand before everything else in a prompt.
TOOLS = [
    _tool("list_files", "List the files of the folder."),
    _tool("read_file", "Read a file.", path="Its path in the folder."),
    _tool("write_file", "Write a whole file.", path="Its path in the folder.", text="All of it."),
    _tool("run_tests", "Run the tests; says the exit code and the output."),
]


def main(  # noqa: PLR0913 - each is an option of the command line
    folder: Annotated[Path, typer.Argument(help="The agent works in here, and only here.")],
    tasks: Annotated[list[str], typer.Argument(help="What to do, one after the other.")],
    *,
    key: Annotated[str, typer.Option(envvar="KEY")],
    url: Annotated[str, typer.Option(envvar="URL")] = "http://127.0.0.1:8787",
    model: Annotated[str, typer.Option(help="One that can call tools.")] = "default",
    budget: Annotated[str, typer.Option(help="Dollars, at most.")] = "0.50",
    test: Annotated[str, typer.Option(help="Runs the tests.")] = f"{sys.executable} -m pytest -q",
) -> None:
    """Let a model work on a folder, in one session, within a budget."""
    session = f"coding-agent-{secrets.token_hex(6)}"
    headers = {"x-session-affinity": session, "x-penstock-workflow": "coding-agent"}
    client = OpenAI(base_url=f"{url}/v1", api_key=key, default_headers=headers)
    agent = Agent(client, model, Workshop(folder, test), Decimal(budget))
    try:
        for task in tasks:
            agent.work_on(task)
    except BadRequestError as refused:
        if refused.code != "max_cost_exceeded":
            raise
        console.print(f"Stopped: the next turn may cost more than is left of ${budget}.")
    hits = agent.cached_tokens / max(agent.prompt_tokens, 1)
    console.print(
        f"{agent.turns} turns, {hits:.0%} of the prompts cached, ${agent.spent:.6f} spent"
    )
    console.print(f"The bill, turn by turn: {url}/v1/usage/sessions/{session}")


if __name__ == "__main__":
    typer.run(main)
