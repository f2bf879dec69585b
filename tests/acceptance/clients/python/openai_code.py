"""The openai SDK lets the model run code: streamed, with files that go in and come out."""

import json
from typing import Any

from openai import OpenAI
from tests.acceptance.clients.python.given import KEY, MODEL, URL, answer

client = OpenAI(base_url=f"{URL}/v1", api_key=KEY, max_retries=0)
CODE: Any = {"type": "code_interpreter", "container": {"type": "auto"}}
OUTPUTS: Any = ["code_interpreter_call.outputs"]
READ = "import csv\nrows = list(csv.DictReader(open('sales.csv')))\nprint(len(rows))"
SUM = "total = sum(int(row['sold']) for row in rows)\ntotal"
WRITE = "open('total.txt', 'w').write(f'{total} sold\\n')\n1 / 0"


def stream() -> object:
    """Three rounds in one stream: each uses what the one before it left in the container."""
    table = client.files.create(file=("sales.csv", b"sold\n3\n4\n5\n"), purpose="user_data")
    tool = {"type": "code_interpreter", "container": {"type": "auto", "file_ids": [table.id]}}
    asked: Any = {"model": MODEL, "input": _code(READ, SUM, WRITE), "tools": [tool]}
    with client.responses.stream(**asked, include=OUTPUTS) as streamed:
        events: list[Any] = [event.to_dict() for event in streamed]
        final = streamed.get_final_response()
    stored = client.responses.retrieve(final.id, include=OUTPUTS)
    return {
        "events": [[event["type"], event["sequence_number"]] for event in events],
        "code": "".join(
            event["delta"]
            for event in events
            if event["type"] == "response.code_interpreter_call_code.delta"
        ),
        # `parsed` is the SDK's own, and only streams have it.
        "response": final.to_dict() | {"output": [_without_parsed(item) for item in final.output]},
        "stored": stored.to_dict(),
        "cited": _read_cited(final),
    }


def containers() -> object:
    """A container of the client's own, used by two responses, and read when they are done."""
    container = client.containers.create(name="mine")
    client.containers.files.create(container.id, file=("words.txt", b"gate dam\n"))
    tool: Any = {"type": "code_interpreter", "container": container.id}
    programs = (
        "words = open('words.txt').read().split()",
        "open('sorted.txt', 'w').write(' '.join(sorted(words)))",
    )
    responses = [
        client.responses.create(model=MODEL, input=_code(each), tools=[tool]) for each in programs
    ]
    files = {file.path: file for file in client.containers.files.list(container.id)}
    told = {
        "container": container.to_dict(),
        "used": [item.to_dict() for response in responses for item in response.output],
        "files": {path: file.source for path, file in files.items()},
        "sorted": _read(files["/mnt/data/sorted.txt"].id, container.id),
    }
    client.containers.delete(container.id)
    return told


def chain() -> object:
    """A later response finds the variables; what the container may not do is told to the model."""
    first = client.responses.create(model=MODEL, input=_code("x = 41"), tools=[CODE])
    held = (
        "import os, socket\nprint(x + 1, os.getuid())\nsocket.create_connection(('1.1.1.1', 53), 2)"
    )
    second = client.responses.create(
        model=MODEL,
        input=_code(held),
        tools=[CODE],
        previous_response_id=first.id,
        include=OUTPUTS,
    )
    return [response.output[0].to_dict() for response in (first, second)]


def _without_parsed(item: Any) -> Any:
    fields = item.to_dict()
    for part in fields.get("content", ()):
        del part["parsed"]
    return fields


def _code(*programs: str) -> str:
    """By these words the scripted engine writes the programs, one after the other."""
    return " THEN ".join(f"CALL python {json.dumps({'code': each})}" for each in programs)


def _read_cited(response: Any) -> dict[str, str]:
    (message,) = (item for item in response.output if item.type == "message")
    return {
        cited.filename: _read(cited.file_id, cited.container_id)
        for cited in message.content[0].annotations
    }


def _read(file: str, container: str) -> str:
    content: Any = client.containers.files.content
    return str(content.retrieve(file, container_id=container).read().decode())


if __name__ == "__main__":
    answer({"stream": stream, "containers": containers, "chain": chain})
