"""The openai SDK on containers and their files."""

from typing import Any

from openai import APIStatusError, OpenAI
from tests.acceptance.clients.python.given import KEY, URL, answer

client = OpenAI(base_url=f"{URL}/v1", api_key=KEY, max_retries=0)


def containers() -> object:
    """Two containers, page by page, one of them deleted."""
    made = [
        client.containers.create(
            name=name, expires_after={"anchor": "last_active_at", "minutes": minutes}
        )
        for name, minutes in (("first", 5), ("second", 10))
    ]
    listed = list(client.containers.list(limit=1, order="asc"))
    client.containers.delete(made[0].id)
    shown = client.containers.retrieve(made[1].id)
    told = {
        "made": [each.to_dict() for each in made],
        "listed": [each.id for each in listed],
        "is_shown": shown.to_dict() == made[1].to_dict(),
        "gone": _code_of(lambda: client.containers.retrieve(made[0].id)),
        "left": [each.id for each in client.containers.list()],
    }
    client.containers.delete(made[1].id)
    return told


def files() -> object:
    """Files that go in by a form and by id, are listed page by page, read and deleted."""
    container = client.containers.create(name="files")
    stored = client.files.create(file=("lines.jsonl", b'{"custom_id": "1"}\n'), purpose="batch")
    one = client.containers.files.create(container.id, file=("data.csv", b"a,b\n1,2\n"))
    two = client.containers.files.create(container.id, file_id=stored.id)
    listed = list(client.containers.files.list(container.id, limit=1, order="asc"))
    shown = client.containers.files.retrieve(one.id, container_id=container.id)
    read: Any = client.containers.files.content
    texts = [read.retrieve(each.id, container_id=container.id).read().decode() for each in listed]
    client.containers.files.delete(one.id, container_id=container.id)
    gone = _code_of(lambda: client.containers.files.retrieve(one.id, container_id=container.id))
    client.containers.delete(container.id)
    return {
        "container": container.id,
        "files": [one.to_dict(), two.to_dict()],
        "listed": [each.id for each in listed],
        "is_shown": shown.to_dict() == one.to_dict(),
        "texts": texts,
        "gone": gone,
    }


def refused() -> object:
    """What is not served, by its code and parameter."""
    wishes: list[dict[str, Any]] = [
        {"network_policy": {"type": "allowlist", "allowed_domains": ["example.com"]}},
        {"skills": [{"type": "skill_reference", "skill_id": "s"}]},
        {"memory_limit": "64g"},
    ]
    return [
        _code_of(lambda wish=wish: client.containers.create(name="x", **wish)) for wish in wishes
    ]


def _code_of(ask: Any) -> object:
    try:
        ask()
    except APIStatusError as raised:
        return [type(raised).__name__, raised.code, raised.param]
    return None


if __name__ == "__main__":
    answer({"containers": containers, "files": files, "refused": refused})
