"""Paths of hot requests: raw slashes and `%2F`, trailing slashes, queries, and what is not one."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import Error, InvalidRequest, MalformedModel, NotFound
from penstock.intake.routes import (
    Surface,
    find_route,
    is_inference,
    path_meant,
    route_name,
    surface_of,
)

KIMI = "@cf/moonshotai/kimi-k2.5"
A = b"/client/v4/accounts/acme"
_NAMED = "/client/v4/accounts/{account_id}/ai"


def test_openai_chat_names_neither_account_nor_model() -> None:
    route = find_route(b"/v1/chat/completions")
    assert route.surface is Surface.OPENAI
    assert (route.account, route.model, route.query) == (None, None, {})


def test_workers_chat_names_the_account() -> None:
    route = find_route(A + b"/ai/v1/chat/completions")
    assert route.surface is Surface.WORKERS_V1
    assert (route.account, route.model) == ("acme", None)


@pytest.mark.parametrize(
    "target",
    [
        b"/ai/run/@cf/moonshotai/kimi-k2.5",
        b"/ai/run/@cf%2Fmoonshotai%2Fkimi-k2.5",
        b"/ai/run/%40cf%2fmoonshotai%2fkimi-k2.5",
        b"/ai/run/@cf%2Fmoonshotai/kimi-k2%2E5",
        b"/ai/run/@cf/moonshotai/kimi-k2.5?tags=a",
    ],
)
def test_model_is_read_with_raw_and_with_encoded_slashes(target: bytes) -> None:
    assert is_inference(b"POST", A + target)
    route = find_route(A + target)
    assert route.surface is Surface.WORKERS_RUN
    assert (route.account, route.model) == ("acme", KIMI)


@pytest.mark.parametrize("target", [b"/ai/run", b"/ai/run/", b"/ai/run?x=1", b"/ai/run/?x=1"])
def test_run_without_a_model_in_its_path_leaves_it_to_the_body(target: bytes) -> None:
    assert is_inference(b"POST", A + target)
    route = find_route(A + target)
    assert route.surface is Surface.WORKERS_RUN
    assert route.model is None


def test_model_with_a_slash_behind_it_is_another_name() -> None:
    # The catalogue answers 404/3042 to it: a slash may only stand between two parts.
    assert find_route(A + b"/ai/run/@cf/x/y/").model == "@cf/x/y/"


def test_model_encoded_twice_is_decoded_once() -> None:
    assert find_route(A + b"/ai/run/@cf%252Fx").model == "@cf%2Fx"


@pytest.mark.parametrize("raw", [b"%ff", b"@cf%2F%c3", b"%e2%82"])
def test_model_that_is_not_utf_8_is_malformed(raw: bytes) -> None:
    with pytest.raises(MalformedModel):
        find_route(A + b"/ai/run/" + raw)


def test_query_is_read_on_every_surface() -> None:
    query = b"?queueRequest=true&rejectIfBusy=1&tags=a%2Cb&empty=&x=1&x=2"
    for path in (b"/v1/chat/completions", A + b"/ai/run/m", A + b"/ai/v1/chat/completions"):
        route = find_route(path + query)
        assert route.query["queueRequest"] == "true"
        assert route.query["rejectIfBusy"] == "1"
        assert route.query["tags"] == "a,b"
        assert route.query["x"] == "2"


def test_query_of_too_many_fields_is_refused_and_no_crash() -> None:
    with pytest.raises(InvalidRequest):
        find_route(A + b"/ai/run/m?" + b"&".join(b"a%d=1" % n for n in range(1000)))


def test_account_is_decoded() -> None:
    assert find_route(b"/client/v4/accounts/a%20b/ai/run/m").account == "a b"


@pytest.mark.parametrize(
    ("method", "target", "expected"),
    [
        (b"POST", b"/v1/chat/completions", True),
        (b"POST", b"/v1/chat/completions?a=1", True),
        (b"GET", b"/v1/chat/completions", False),
        (b"PUT", A + b"/ai/run/m", False),
        (b"POST", b"/v1/models", False),
        (b"POST", b"/v1/chat/completions/", False),
        (b"POST", b"/v1/chat/completionsX", False),
        (b"POST", b"/", False),
        (b"POST", b"*", False),
        (b"POST", b"", False),
        (b"POST", A + b"/ai/run/m", True),
        (b"POST", A + b"/ai/v1/chat/completions?x", True),
        (b"POST", A + b"/ai/models/search", False),
        (b"POST", A, False),
        (b"POST", b"/client/v4/accounts/", False),
        (b"POST", b"/ai/run/m", False),
    ],
)
def test_only_posts_to_the_chat_paths_are_hot(method: bytes, target: bytes, expected: bool) -> None:
    assert is_inference(method, target) is expected


@pytest.mark.parametrize(
    "path", [b"/ai/runaway", b"/x/ai/run/m", b"/ai/running/m", b"x/ai/v1/chat/completions"]
)
def test_hot_looking_path_that_is_none_is_not_found(path: bytes) -> None:
    try:
        route = find_route(A + path)
    except NotFound:
        return
    assert route.account != "acme", "only as another account's"


def test_surface_of_errors_follows_the_prefix() -> None:
    assert surface_of(b"/v1/chat/completions") is Surface.OPENAI
    assert surface_of(b"/nowhere") is Surface.OPENAI
    assert surface_of(A + b"/ai/run/m").is_workers_ai
    assert surface_of(b"/client/v4/nowhere").is_workers_ai


@settings(max_examples=150, deadline=None)
@given(
    st.sampled_from([b"", b"/v1/chat/completions", A, A + b"/ai/run/", b"/client/v4/accounts/"]),
    st.text(alphabet="/airun%2Fcf@?&=.chatompleisv14 é", max_size=30) | st.text(max_size=10),
)
def test_any_hot_target_is_read_or_refused_and_nothing_else(start: bytes, rest: str) -> None:
    target = start + rest.encode()
    if not is_inference(b"POST", target):
        return
    try:
        route = find_route(target)
    except Error:
        return
    assert route.surface in Surface
    assert surface_of(target).is_workers_ai is route.surface.is_workers_ai


@pytest.mark.parametrize(
    ("path", "meant"),
    [
        ("/chat/completions", "/v1/chat/completions"),
        ("/v1/v1/chat/completions", "/v1/chat/completions"),
        ("/v1/v1/responses", "/v1/responses"),
        ("/v1/v1/messages", "/v1/messages"),
        ("/models", "/v1/models"),
        ("/completions/", "/v1/completions"),
        ("/", ""),
        ("/v2/audio", ""),
    ],
)
def test_wrong_base_url_is_told_the_path_that_was_meant(path: str, meant: str) -> None:
    assert path_meant(path) == meant


@pytest.mark.parametrize(
    ("target", "name"),
    [
        (b"/v1/chat/completions", "/v1/chat/completions"),
        (b"/v1/responses?key=secret", "/v1/responses"),
        (b"/client/v4/accounts/acme/ai/v1/messages", _NAMED + "/v1/messages"),
        (b"/client/v4/accounts/acme/ai/run/@cf/a/b?key=secret", _NAMED + "/run/{model_name}"),
        (b"/client/v4/accounts/%2F/ai/run", _NAMED + "/run/{model_name}"),
        (b"/client/v4/accounts/acme/ai/runner", _NAMED + "/run/{model_name}"),
    ],
)
def test_a_route_is_named_without_ids_and_query(target: bytes, name: str) -> None:
    assert is_inference(b"POST", target)
    assert route_name(target) == name
