"""`/v1/containers`, as OpenAI's SDK and others call it, through a gateway."""

import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import openai
import psycopg
import pytest
from tests.integration.cells.batch_cell import sdk
from tests.integration.cells.gateway_answers import check_openai
from tests.integration.cells.gateway_cell import Cell, CellFactory
from tests.integration.cells.imitated_sandbox import ImitatedSandbox, sandbox_settings
from tests.integration.cells.kept_bytes import find_in_database, find_in_folder

from penstock.clock import new_id
from penstock.policy import AccountBook, KeyBook
from penstock.records.account import Role, Storage
from penstock.store import Store

PATH = "/v1/containers"
MARKER = b"only-the-caller-knows-this"


@pytest.fixture(scope="module")
def host() -> Iterator[ImitatedSandbox]:
    with ImitatedSandbox() as running:
        yield running


@pytest.fixture(scope="module")
def cell(
    cells: CellFactory, host: ImitatedSandbox, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Cell]:
    settings = sandbox_settings(tmp_path_factory.mktemp("sandbox"), host)
    settings["tools.artifact_bytes_max"] = 100_000
    with cells.open(settings) as opened:
        opened.set_up()
        yield opened


@pytest.fixture
def client(cell: Cell) -> openai.OpenAI:
    return sdk(cell)


def id_of(shown: str) -> str:
    digits = shown.partition("_")[2]
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


def on_host(shown: str) -> str:
    return shown.partition("_")[2]


def execute(cell: Cell, statement: str, *params: object) -> None:
    with psycopg.connect(cell.dsn) as connection:
        connection.execute(statement, params)


def test_containers_are_made_listed_shown_and_deleted(
    client: openai.OpenAI, host: ImitatedSandbox
) -> None:
    made = client.containers.create(
        name="first", memory_limit="4g", expires_after={"anchor": "last_active_at", "minutes": 7}
    )
    assert made.id.startswith("cntr_")
    assert (made.object, made.status, made.name) == ("container", "running", "first")
    assert made.memory_limit == "4g"
    assert made.expires_after is not None
    assert made.expires_after.minutes == 7
    assert made.network_policy is not None
    assert made.network_policy.type == "disabled"
    assert made.model_extra == {"driver": "imitated", "isolation": "namespaces"}
    assert client.containers.retrieve(made.id).to_dict() == made.to_dict()
    other = client.containers.create(name="second")
    assert [each.id for each in client.containers.list(limit=1)][:2] == [other.id, made.id]
    assert [each.id for each in client.containers.list(name="first")] == [made.id]
    client.containers.delete(made.id)
    client.containers.delete(other.id)
    assert on_host(made.id) not in host.containers
    with pytest.raises(openai.NotFoundError):
        client.containers.retrieve(made.id)
    assert list(client.containers.list()) == []


def test_files_go_in_and_are_read_after_the_end(
    cell: Cell, client: openai.OpenAI, host: ImitatedSandbox
) -> None:
    made = client.containers.create(name="box")
    content = io.BytesIO(MARKER)
    file = client.containers.files.create(made.id, file=("dir/data.csv", content, "text/csv"))
    assert file.id.startswith("cfile_")
    assert (file.path, file.bytes, file.source) == ("/mnt/data/data.csv", len(MARKER), "user")
    assert (file.object, file.container_id) == ("container.file", made.id)
    assert host.containers[on_host(made.id)] == {"data.csv": MARKER}
    assert client.containers.files.retrieve(file.id, container_id=made.id).path == file.path
    assert [each.id for each in client.containers.files.list(made.id)] == [file.id]
    read = client.containers.files.content.retrieve(file.id, container_id=made.id)
    assert read.read() == MARKER
    assert find_in_database(cell.dsn, MARKER) == []
    assert find_in_folder(cell.journal.parent, MARKER, without="cell.key") == []
    execute(cell, "update containers set ends_at = now() where id = %s", id_of(made.id))
    with pytest.raises(openai.NotFoundError) as refused:
        client.containers.retrieve(made.id)
    assert refused.value.code == "container_expired"
    with pytest.raises(openai.NotFoundError) as refused:
        client.containers.files.create(made.id, file=("x", b"x"))
    assert refused.value.code == "container_expired"
    assert [each.status for each in client.containers.list(name="box")] == ["expired"]
    read = client.containers.files.content.retrieve(file.id, container_id=made.id)
    assert read.read() == MARKER
    client.containers.files.delete(file.id, container_id=made.id)
    with pytest.raises(openai.NotFoundError):
        client.containers.files.retrieve(file.id, container_id=made.id)
    client.containers.delete(made.id)


def test_files_of_the_files_api_are_copied_in(
    cell: Cell, client: openai.OpenAI, host: ImitatedSandbox
) -> None:
    line = b'{"custom_id": "1"}\n'
    stored = client.files.create(file=("lines.jsonl", line), purpose="batch")
    made = client.containers.create(name="box", file_ids=[stored.id])
    assert host.containers[on_host(made.id)] == {"lines.jsonl": line}
    host.containers[on_host(made.id)].clear()
    client.containers.files.create(made.id, file_id=stored.id)
    assert host.containers[on_host(made.id)] == {"lines.jsonl": line}
    answer = cell.post(f"{PATH}/{made.id}/files", {"file_id": stored.id})
    assert answer.json()["path"] == "/mnt/data/lines.jsonl"
    check_openai(cell.post(f"{PATH}/{made.id}/files", {"file_id": "file-none"}), 404, "not_found")
    check_openai(cell.post(PATH, {"name": "x", "file_ids": ["file-none"]}), 404, "not_found")
    client.containers.delete(made.id)


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"network_policy": {"type": "allowlist", "allowed_domains": ["a.b"]}}, "network_policy"),
        ({"skills": [{"type": "skill_reference", "skill_id": "s"}]}, "skills"),
        ({"memory_limit": "2g"}, "memory_limit"),
        ({"memory_limit": "lots"}, "memory_limit"),
        ({"expires_after": {"anchor": "last_active_at", "minutes": 21}}, "expires_after"),
        ({"name": ""}, "name"),
        ({"name": "a\nb"}, "name"),
    ],
)
def test_what_is_not_served_is_refused_by_name(
    cell: Cell, fields: dict[str, Any], param: str
) -> None:
    answer = cell.post(PATH, {"name": "box", **fields})
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == param


def test_a_file_that_is_too_large_is_refused(cell: Cell, client: openai.OpenAI) -> None:
    made = client.containers.create(name="box")
    with pytest.raises(openai.APIStatusError) as refused:
        client.containers.files.create(made.id, file=("big", b"x" * 100_001))
    assert refused.value.status_code == 413
    client.containers.delete(made.id)


def test_a_container_whose_files_do_not_fit_is_ended(
    client: openai.OpenAI, host: ImitatedSandbox
) -> None:
    files = [
        client.files.create(
            file=(f"{name}.jsonl", b'{"x": "%b"}\n' % (b"x" * 60_000)), purpose="batch"
        )
        for name in "ab"
    ]
    held = len(host.containers)
    with pytest.raises(openai.APIStatusError) as refused:
        client.containers.create(name="box", file_ids=[file.id for file in files])
    assert refused.value.status_code == 413
    assert len(host.containers) == held
    assert list(client.containers.list(name="box")) == []


def test_what_is_another_account_s_is_not_there(cell: Cell, client: openai.OpenAI) -> None:
    made = [client.containers.create(name="box") for _ in range(4)]
    files = [client.containers.files.create(each.id, file=("f", MARKER)) for each in made]
    _, _, secret = cell.add_account("thief")
    headers = {"authorization": f"Bearer {secret}"}
    unknown = f"cntr_{new_id().replace('-', '')}"
    others = [
        *((each.id, file.id) for each, file in zip(made, files, strict=True)),
        *((f"cntr_{new_id().replace('-', '')}", files[0].id) for _ in range(14)),
        (made[0].id.upper(), files[0].id),
        ("cntr_' or 1=1 --", "x"),
    ]
    assert len(others) == 20
    for method, tail in (
        ("GET", ""),
        ("DELETE", ""),
        ("GET", "/files"),
        ("POST", "/files"),
        ("GET", "/files/{file}"),
        ("DELETE", "/files/{file}"),
        ("GET", "/files/{file}/content"),
    ):
        bodies = set()
        for container, file in [(unknown, files[0].id), *others]:
            answer = cell.client.request(
                method,
                f"{cell.gateway.url}{PATH}/{container}{tail.format(file=file)}",
                headers=headers,
                json={"file_id": "file-1"} if method == "POST" else None,
            )
            assert answer.status_code == 404, (method, tail)
            bodies.add(answer.text)
        assert len(bodies) == 1, (method, tail, bodies)
    own = cell.post(PATH, {"name": "own"}, headers=headers).json()["id"]
    stolen = cell.get(f"{PATH}/{own}/files/{files[0].id}/content", headers=headers)
    check_openai(stolen, 404, "not_found")
    assert cell.get(PATH, headers=headers).json()["data"][0]["id"] == own
    assert len(cell.get(PATH, headers=headers).json()["data"]) == 1
    for each, kept in zip(made, files, strict=True):
        read = client.containers.files.content.retrieve(kept.id, container_id=each.id)
        assert read.read() == MARKER
        client.containers.delete(each.id)


def test_workers_ai_s_surface_has_them_too(cell: Cell) -> None:
    made = cell.post(cell.path("v1/containers"), {"name": "box"}).json()
    assert cell.get(cell.path(f"v1/containers/{made['id']}")).json()["id"] == made["id"]
    assert cell.get(cell.path("v1/containers/cntr_x")).json()["success"] is False
    gone = cell.client.delete(
        cell.gateway.url + cell.path(f"v1/containers/{made['id']}"), headers=cell.authorization()
    )
    assert gone.json()["deleted"] is True


def test_without_a_key_there_is_nothing(cell: Cell) -> None:
    for path in (PATH, f"{PATH}/cntr_x", f"{PATH}/cntr_x/files"):
        assert cell.client.get(cell.gateway.url + path).status_code == 401


def test_without_a_sandbox_there_is_none(cells: CellFactory, tmp_path: Path) -> None:
    with cells.open() as cell:
        cell.set_up()
        answer = cell.post(PATH, {"name": "box"})
        check_openai(answer, 503, "sandbox_unavailable", retry=True, retry_after=True)
        assert cell.get(PATH).json()["data"] == []


def test_an_account_that_keeps_nothing_gets_no_container(cell: Cell) -> None:
    async def add(store: Store) -> str:
        """The key comes last: a gateway that knows it has the account as it is."""
        accounts = AccountBook(store)
        account = await accounts.create("never")
        await accounts.set_storage(account.id, Storage.NEVER)
        _, secret = await KeyBook(store).create(Role.RUNTIME, account.id, "never")
        return secret

    secret = cell.run(add)
    answer = cell.post(PATH, {"name": "box"}, headers={"authorization": f"Bearer {secret}"})
    check_openai(answer, 400, "stored_state_unavailable")
