"""Everything beside inference: lists of models, health, the API's description, CORS."""

import re
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import quote

import msgspec
import pytest
from tests.integration.cells.gateway_answers import check_envelope, check_openai, check_request_id
from tests.integration.cells.gateway_cell import (
    ABSENT,
    CHAT,
    NATIVE,
    PLAIN,
    PRIVATE,
    THINKER,
    Cell,
    CellFactory,
    chat_body,
)
from tests.integration.cells.gateway_process import eventually

from penstock.records.replica import ReplicaState

_V1 = "/v1/chat/completions"
_ORIGIN = "https://app.example"


@pytest.fixture(scope="module")
def browsed(cells: CellFactory) -> Iterator[Cell]:
    """A gateway that browsers on one origin may call."""
    with cells.open({"ingress.cors_origins": [_ORIGIN]}) as cell:
        cell.set_up(CHAT)
        yield cell


def _search(cell: Cell, query: str = "") -> dict[str, Any]:
    answer = cell.get(cell.path(f"models/search{query}"))
    assert answer.status_code == 200, answer.text
    body: dict[str, Any] = answer.json()
    assert (body["success"], body["errors"], body["messages"]) == (True, [], [])
    return body


def _names(cell: Cell, query: str = "") -> list[str]:
    return [model["name"] for model in _search(cell, query)["result"]]


def test_models_with_a_wanted_replica_are_listed(cell: Cell) -> None:
    for path in ("/v1/models", cell.path("v1/models")):
        answer = cell.get(path)
        check_request_id(answer.headers)
        body = answer.json()
        assert body["object"] == "list"
        # Neither one without a replica nor one that is private to others; then their aliases.
        ids = [CHAT, NATIVE, PLAIN, THINKER]
        aliases = [name.rpartition("/")[2] for name in ids]
        assert [model["id"] for model in body["data"]] == [*ids, *aliases]
        first = body["data"][0]
        assert (first["object"], first["owned_by"]) == ("model", "test")


def test_an_operator_sees_every_model(cell: Cell) -> None:
    headers = {"authorization": f"Bearer {cell.operator_key}"}
    listed = cell.get("/v1/models", headers=headers).json()["data"]
    ids = [CHAT, NATIVE, PLAIN, PRIVATE, THINKER]
    assert [model["id"] for model in listed][: len(ids)] == ids


@pytest.mark.parametrize("spelling", [CHAT, quote(CHAT, safe="@"), quote(CHAT, safe=""), "chat"])
def test_one_model_by_its_name(cell: Cell, spelling: str) -> None:
    answer = cell.get(f"/v1/models/{spelling}")
    assert answer.status_code == 200
    assert answer.json()["id"] == CHAT


def test_models_that_are_not_there(cell: Cell) -> None:
    for name in (ABSENT, PRIVATE, "nobody"):
        check_openai(cell.get(f"/v1/models/{name}"), 404, "model_not_found")
    check_openai(cell.get("/v1/models/%20"), 404, "malformed_model")


def test_model_pages_want_a_key_of_the_account(cell: Cell) -> None:
    for path in ("/v1/models", f"/v1/models/{CHAT}"):
        check_openai(cell.get(path, headers={"authorization": "x"}), 401, "unauthenticated")
    other = f"/client/v4/accounts/{'f' * 32}/ai/models/search"
    check_envelope(cell.get(other), 403, 10000)
    check_envelope(cell.get(cell.path("models/search"), headers={"authorization": "x"}), 401, 10000)


def test_search_describes_models_as_workers_ai_does(cell: Cell) -> None:
    body = _search(cell)
    assert body["result_info"] == {"page": 1, "per_page": 50, "count": 4, "total_count": 4}
    found = body["result"][0]
    assert found["name"] == CHAT
    assert re.fullmatch(r"[0-9a-f-]{36}", found["id"])
    assert (found["source"], found["task"]["name"]) == (1, "Text Generation")
    properties = {entry["property_id"]: entry["value"] for entry in found["properties"]}
    assert properties["vision"] == properties["function_calling"] == "true"
    assert properties["context_window"] == "100000"
    assert properties["price"][0] == {
        "unit": "per M input tokens", "price": 0.6, "currency": "USD",
    }  # fmt: skip


def test_search_filters(cell: Cell) -> None:
    assert _names(cell, "?search=NATIVE") == [NATIVE]
    assert _names(cell, "?search=nothing-like-it") == []
    assert _names(cell, "?author=test&search=plain") == [PLAIN]
    assert _names(cell, "?author=somebody") == []
    assert len(_names(cell, "?task=Text%20Generation&hide_experimental=true&source=1")) == 4
    assert _names(cell, "?task=Translation") == []


def test_search_pages(cell: Cell) -> None:
    assert _names(cell, "?per_page=2") == [CHAT, NATIVE]
    assert _names(cell, "?per_page=2&page=2") == [PLAIN, THINKER]
    assert _names(cell, "?per_page=2&page=3") == []
    info = _search(cell, "?per_page=2&page=2")["result_info"]
    assert info == {"page": 2, "per_page": 2, "count": 2, "total_count": 4}
    for query in ("?page=0", "?page=x", "?per_page=-1", "?page=99999999999999999999", "?page=٣"):
        check_envelope(cell.get(cell.path(f"models/search{query}")), 400, 5006)


def test_schema_of_each_family(cell: Cell) -> None:
    for name, answered in ((CHAT, "choices"), (NATIVE, "response")):
        answer = cell.get(cell.path(f"models/schema?model={quote(name, safe='')}"))
        body = answer.json()
        assert body["success"] is True
        assert len(body["result"]["input"]["oneOf"]) == 2
        assert answered in msgspec.json.encode(body["result"]["output"]).decode()
    check_envelope(cell.get(cell.path("models/schema")), 400, 5006)
    check_envelope(cell.get(cell.path("models/schema?model=nobody")), 400, 5007)


def test_the_description_is_sound(cell: Cell) -> None:
    answer = cell.client.get(cell.gateway.url + "/openapi.json")
    check_request_id(answer.headers)
    document = answer.json()
    assert document["openapi"].startswith("3.1")
    schemas = document["components"]["schemas"]
    references = set(re.findall(r'"\$ref":"([^"]+)"', msgspec.json.encode(document).decode()))
    assert references
    for reference in references:
        assert reference.removeprefix("#/components/schemas/") in schemas
    for path, methods in document["paths"].items():
        wanted = set(re.findall(r"{(\w+)}", path))
        for operation in methods.values():
            named = {p["name"] for p in operation.get("parameters", []) if p["in"] == "path"}
            assert named == wanted
            assert "200" in operation["responses"]


def test_every_described_path_is_served(cell: Cell) -> None:
    document = cell.client.get(cell.gateway.url + "/openapi.json").json()
    asked = cell.post("/v1/chat/completions", chat_body(), headers={"x-session-id": "s"})
    request_id = asked.headers["x-request-id"]
    asked_page = f"/v1/usage/requests/{request_id}"
    eventually(lambda: cell.get(asked_page).status_code == 200)
    for template, methods in document["paths"].items():
        path = template.replace("{account_id}", cell.account).replace("{model}", CHAT)
        path = re.sub(r"\{\w+\}", request_id, path.replace("{session}", "s"))
        for method in methods:
            # Only the head is read: one of them is a stream without an end.
            with cell.client.stream(
                method, cell.gateway.url + path, headers=cell.authorization(), content=b"{}"
            ) as answer:
                assert answer.status_code != 405, path
                # There may be no such job or file, but there is such a page.
                if answer.status_code == 404:
                    assert "No such path" not in answer.read().decode(), path


def test_front_page_shows_people_what_runs_and_programs_the_same_as_json(cell: Cell) -> None:
    asked = {"authorization": "", "host": "<b>evil</b>"}
    told = cell.get("/", headers=asked).json()
    assert told["service"] == "penstock"
    assert {"id": CHAT, "is_ready": True} in told["models"]
    shown = cell.get("/", headers={**asked, "accept": "text/html,*/*;q=0.8"})
    assert shown.headers["content-type"] == "text/html; charset=utf-8"
    assert "default-src 'none'" in shown.headers["content-security-policy"]
    assert f"<td>{CHAT}<td>ready" in shown.text
    # Neither what is private to an account, nor a word of the request.
    assert PRIVATE not in shown.text
    assert PRIVATE not in str(told)
    assert "evil" not in shown.text
    assert cell.get("/health", headers=asked).json() == {"status": "ok"}


def test_healthz_and_readyz(cell: Cell) -> None:
    answer = cell.client.get(cell.gateway.url + "/healthz")
    assert (answer.status_code, answer.json()) == (200, {"status": "ok"})
    check_request_id(answer.headers)
    answer = cell.client.get(cell.gateway.url + "/readyz")
    assert answer.status_code == 200
    assert answer.json() == {
        "status": "ready",
        "checks": {"keys_loaded": True, "replica_ready": True},
    }
    check_request_id(answer.headers)


def test_readyz_says_what_is_missing_until_a_replica_is_ready(cells: CellFactory) -> None:
    with cells.open() as cell:
        engine = cell.set_up()
        answer = cell.client.get(cell.gateway.url + "/readyz")
        assert answer.status_code == 503
        assert answer.json()["checks"] == {"keys_loaded": True, "replica_ready": False}
        assert cell.get("/v1/models").json()["data"] == []
        replica = cell.enroll(engine.url, CHAT)
        url = cell.gateway.url + "/readyz"
        eventually(lambda: cell.client.get(url).status_code == 200, 2)
        assert cell.chat(chat_body()).status_code == 200
        assert cell.get("/v1/models").json()["data"][0]["id"] == CHAT
        # Within two seconds of its death nothing is sent to it.
        assert replica.state is ReplicaState.READY
        cell.withdraw(replica)
        eventually(lambda: cell.chat(chat_body()).status_code == 503, 2)
        eventually(lambda: cell.client.get(url).status_code == 503, 2)


def test_a_preflight_is_answered(browsed: Cell) -> None:
    headers = {
        "origin": _ORIGIN,
        "access-control-request-method": "POST",
        "access-control-request-headers": "authorization,content-type,x-session-affinity",
    }
    for path in (_V1, browsed.path(f"run/{CHAT}"), "/v1/models"):
        answer = browsed.client.options(browsed.gateway.url + path, headers=headers)
        assert answer.status_code == 200
        assert answer.headers["access-control-allow-origin"] == _ORIGIN
        assert "POST" in answer.headers["access-control-allow-methods"]
        allowed = answer.headers["access-control-allow-headers"].lower()
        assert "authorization" in allowed
        check_request_id(answer.headers)


def test_answers_may_be_read_by_listed_origins_only(browsed: Cell) -> None:
    asked: list[Callable[[dict[str, str]], Any]] = [
        lambda headers: browsed.post(_V1, chat_body(), headers=headers),
        lambda headers: browsed.post(_V1, chat_body(stream=True), headers=headers),
        lambda headers: browsed.post(_V1, chat_body("nobody"), headers=headers),
        lambda headers: browsed.get("/v1/models", headers=headers),
        lambda headers: browsed.get("/nothing", headers=headers),
    ]
    for ask in asked:
        answer = ask({"origin": _ORIGIN})
        assert answer.headers["access-control-allow-origin"] == _ORIGIN
        assert "origin" in answer.headers["vary"].lower()
        exposed = answer.headers["access-control-expose-headers"].lower()
        assert {"x-request-id", "retry-after"} <= set(exposed.replace(" ", "").split(","))
        assert "access-control-allow-origin" not in ask({"origin": "https://evil.example"}).headers
        assert "access-control-allow-origin" not in ask({}).headers


def test_without_the_setting_no_origin_is_let_by(cell: Cell) -> None:
    for answer in (
        cell.post(_V1, chat_body(), headers={"origin": _ORIGIN}),
        cell.get("/v1/models", headers={"origin": _ORIGIN}),
    ):
        assert not [name for name in answer.headers if name.startswith("access-control")]
