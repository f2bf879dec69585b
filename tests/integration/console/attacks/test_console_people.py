"""People whom a proxy signs in: who is believed, what they may do, and under whose name."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import httpx
import pytest
from tests.integration.cells.control_process import ControlProcess, control_process
from tests.integration.console.console_browser import Browser
from tests.integration.console.console_cell import accounts_of

_PROXY: Final = "127.0.0.9"
_HEADER: Final = "x-forwarded-user"
_SETTINGS: Final = {
    "control.console_person_header": _HEADER,
    "control.console_proxy_networks": [f"{_PROXY}/32"],
    "control.console_person_role": "operator",
}
_ANA: Final = {_HEADER: "ana@example.com"}
_BOB: Final = {_HEADER: "bob@example.com"}


@pytest.fixture(scope="module")
def control(module_dsn: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlProcess]:
    """Control behind a proxy, whose people are operators."""
    with control_process(module_dsn, tmp_path_factory.mktemp("control"), _SETTINGS) as control:
        yield control


@contextmanager
def _proxy(control: ControlProcess) -> Iterator[httpx.Client]:
    """A browser behind the proxy: what it asks comes from the proxy's address."""
    transport = httpx.HTTPTransport(local_address=_PROXY)
    with httpx.Client(transport=transport, base_url=control.url) as client:
        yield client


def _token(page: httpx.Response) -> str:
    assert page.status_code == 200, page.text[-500:]
    [token] = set(re.findall(r'name="token" value="(\w+)"', page.text))
    return str(token)


def _create(client: httpx.Client, name: str, token: str, **headers: str) -> httpx.Response:
    return client.post(
        "/console/do/create_account",
        data={"token": token, "name": name},
        headers={"origin": str(client.base_url).rstrip("/"), **headers},
    )


def _is_nobody(answer: httpx.Response) -> bool:
    return answer.is_redirect and answer.headers["location"].startswith("/console/sign-in")


def test_a_person_acts_under_a_name_of_its_own(control: ControlProcess) -> None:
    with _proxy(control) as client:
        page = client.get("/console/request", headers=_ANA)
        assert "ana@example.com" in page.text
        assert _create(client, "by ana", _token(page), **_ANA).status_code == 303
    assert "by ana" in accounts_of(control)
    with control.client() as operator:
        asked = {"actor": "person:ana@example.com"}
        [act] = operator.get("/decisions", params=asked).json()["data"]
    assert act["subjects"] == ["create_account"]


def test_a_person_may_be_an_auditor_only(dsn: str, tmp_path: Path) -> None:
    settings = {**_SETTINGS, "control.console_person_role": "auditor"}
    with control_process(dsn, tmp_path, settings) as control, _proxy(control) as client:
        page = client.get("/console/request", headers=_ANA)
        assert _create(client, "by an auditor", _token(page), **_ANA).status_code == 403
        assert "by an auditor" not in accounts_of(control)
        # Whoever has an operator's key signs in with it, and acts under its name.
        origin = {"origin": control.url}
        form = {"key": control.keys.operator}
        assert client.post("/console/sign-in", data=form, headers=origin).status_code == 303
        page = client.get("/console/request", headers=_ANA)
        assert "ana@example.com" not in page.text
        assert _create(client, "by a key", _token(page), **_ANA).status_code == 303
        assert "by a key" in accounts_of(control)


def test_the_proxys_address_alone_is_believed(control: ControlProcess) -> None:
    with Browser(control, "") as direct:
        for told in (_ANA, {**_ANA, "x-forwarded-for": _PROXY}, {**_ANA, "forwarded": _PROXY}):
            assert _is_nobody(direct.client.get("/console/request", headers=told))


@pytest.mark.parametrize(
    "names",
    [[], [""], ["ana", "bob"], ["ana", "ana"], ["a b"], ["x" * 129], ["a\xa0b"], ["\u202eana"]],
)
def test_a_proxy_names_one_person(control: ControlProcess, names: list[str]) -> None:
    headers = [(_HEADER.encode(), name.encode()) for name in names]
    with _proxy(control) as client:
        assert _is_nobody(client.get("/console/request", headers=headers))
        # Another spelling is another header, whatever some proxies make of it.
        assert _is_nobody(client.get("/console/request", headers={"x_forwarded_user": "ana"}))


def test_a_persons_cookie_needs_the_proxys_word(control: ControlProcess) -> None:
    with _proxy(control) as client:
        page = client.get("/console/request", headers=_ANA)
        cookie = page.headers["set-cookie"].partition(";")[0]
        token = _token(page)
        with Browser(control, "") as direct:
            taken = {"cookie": cookie}
            assert _is_nobody(direct.client.get("/console/request", headers=taken))
            assert _is_nobody(direct.client.get("/console/request", headers={**taken, **_ANA}))
        assert _is_nobody(client.get("/console/request"))
        # Somebody else at the same browser is somebody else, and forms of before are not theirs.
        assert _create(client, "by bob", token, **_BOB).status_code == 403
        page = client.get("/console/request", headers=_BOB)
        assert "bob@example.com" in page.text
        assert "ana@example.com" not in page.text
        assert _token(page) != token
    assert "by bob" not in accounts_of(control)


def test_another_site_begins_no_session(control: ControlProcess) -> None:
    """The browser keeps the cookie back: a page of ours asks again, and then it comes along."""
    from_a_mail = {**_ANA, "sec-fetch-site": "cross-site"}
    with _proxy(control) as client:
        for path in ("/console/", "/console/requests?period=7d"):
            sent = client.get(path, headers=from_a_mail)
            assert "set-cookie" not in sent.headers
            onward = client.get(sent.headers["location"], headers=from_a_mail)
            assert f'content="0; url={path}"' in onward.text
        page = client.get("/console/requests?period=7d", headers=_ANA)
        assert "set-cookie" in page.headers
        forged = _create(client, "forged", "", **from_a_mail)
        assert _is_nobody(forged)
        assert _create(client, "forged", "", **_ANA).status_code == 403
    assert "forged" not in accounts_of(control)


def test_a_persons_session_goes_on(control: ControlProcess) -> None:
    with _proxy(control) as client:
        token = _token(client.get("/console/request", headers=_ANA))
        again = client.get("/console/request", headers=_ANA)
        assert "set-cookie" not in again.headers
        assert _token(again) == token
        out = client.post(
            "/console/sign-out",
            data={"token": token},
            headers={"origin": control.url, **_ANA},
        )
        assert "Max-Age=0" in out.headers["set-cookie"]
        assert _token(client.get("/console/request", headers=_ANA)) != token


def test_the_operators_api_takes_keys_alone(control: ControlProcess) -> None:
    with _proxy(control) as client:
        assert client.get("/operator/v1/accounts", headers=_ANA).status_code == 401


def test_an_eager_person_is_slowed_down_without_cookies_too(dsn: str, tmp_path: Path) -> None:
    settings = {**_SETTINGS, "control.requests_per_minute": 5}
    with control_process(dsn, tmp_path, settings) as control, _proxy(control) as client:
        statuses = list[int]()
        for _ in range(7):
            client.cookies.clear()
            statuses.append(client.get("/console/request", headers=_ANA).status_code)
        assert statuses == [200] * 5 + [429] * 2
        assert client.get("/console/request", headers=_BOB).status_code == 200
