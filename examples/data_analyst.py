"""A data analyst: give it a table and a question; it writes Python, runs it, and draws a picture.

The code runs in a container of the server, not here: without a network, and with this one table.
Pictures and other files that it makes are downloaded when it is done.
"""

from pathlib import Path, PurePosixPath
from typing import Annotated

import typer
from openai import OpenAI
from openai.types.responses import Response, ResponseOutputItem
from rich.console import Console
from rich.syntax import Syntax

INSTRUCTION = (
    "You are a data analyst. Look at the first rows of the table before you compute anything. "
    "Draw one clear picture with matplotlib: a title that says what is to be seen, axes with "
    "units, direct labels instead of a legend. Then answer in three sentences, with numbers."
)

console = Console(highlight=False, markup=False, soft_wrap=True)


def ask(client: OpenAI, model: str, container: str, question: str) -> Response:
    """Show code, output and words as they come; return the whole response."""
    with client.responses.stream(
        model=model,
        instructions=INSTRUCTION,
        input=question,
        tools=[{"type": "code_interpreter", "container": container}],
        include=["code_interpreter_call.outputs"],
    ) as events:
        for event in events:
            if event.type == "response.code_interpreter_call_code.done":
                console.print(Syntax(event.code, "python", background_color="default"))
            elif event.type == "response.output_item.done":
                show_output(event.item)
            elif event.type == "response.output_text.delta":
                console.print(event.delta, end="", style="green")
        console.print()
        return events.get_final_response()


def show_output(item: ResponseOutputItem) -> None:
    """Print what a program printed."""
    if item.type == "code_interpreter_call":
        for output in item.outputs or []:
            if output.type == "logs":
                console.print(output.logs.rstrip(), style="dim")


def save(client: OpenAI, response: Response, folder: Path) -> list[Path]:
    """Download the files that the answer names; return where they are."""
    folder.mkdir(parents=True, exist_ok=True)
    saved = []
    messages = [item for item in response.output if item.type == "message"]
    texts = [part for each in messages for part in each.content if part.type == "output_text"]
    for cited in (each for text in texts for each in text.annotations):
        if cited.type == "container_file_citation":
            content = client.containers.files.content.retrieve(
                cited.file_id, container_id=cited.container_id
            )
            # The model chose the name: its last part only, so that the file stays in the folder.
            saved.append(folder / PurePosixPath(cited.filename).name)
            saved[-1].write_bytes(content.read())
    return saved


def main(
    table: Annotated[Path, typer.Argument(help="A CSV file.", exists=True, dir_okay=False)],
    question: Annotated[str, typer.Argument(help="What to find out.")],
    *,
    key: Annotated[str, typer.Option(envvar="KEY")],
    url: Annotated[str, typer.Option(envvar="URL")] = "http://127.0.0.1:8787",
    model: Annotated[str, typer.Option(help="One that can call tools.")] = "default",
    out: Annotated[Path, typer.Option(help="The folder for pictures.")] = Path("pictures"),
) -> None:
    """Let a model compute and draw what a table has to say."""
    client = OpenAI(base_url=f"{url}/v1", api_key=key)
    container = client.containers.create(name=table.stem).id
    try:
        with table.open("rb") as file:
            there = client.containers.files.create(container, file=file).path
        response = ask(client, model, container, f"The table is {there}. {question}")
        for path in save(client, response, out):
            console.print(f"saved {path} ({path.stat().st_size:,} bytes)")
    finally:
        client.containers.delete(container)


if __name__ == "__main__":
    typer.run(main)
