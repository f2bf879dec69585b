"""Signing in to the console: wrong keys, revoked keys, eager sessions, and behind TLS."""

import html
import re
from pathlib import Path
from typing import Final
from urllib.parse import urlencode

import httpx
import pytest
from tests.integration.cells.control_process import ControlProcess, control_process
from tests.integration.cells.gateway_process import eventually
from tests.integration.console.console_browser import Browser
from tests.integration.console.console_rows import ConsoleRows

_URL: Final = "https://penstock.example.com"
_FROM_A_MAIL: Final = {"sec-fetch-site": "cross-site"}


def test_an_agents_key_signs_nobody_in(control: ControlProcess, rows: ConsoleRows) -> None:
    with Browser(control, "") as browser:
        for secret in (rows.runtime_secret, "psk_wrong", "", " ", "é", "\u202e", "x" * 5000):
            answer = browser.sign_in(secret)
            assert answer.status_code == 403, secret
            assert "set-cookie" not in answer.headers
        assert browser.sign_in("a\0b").status_code == 400


def test_a_revoked_key_is_signed_out_within_five_seconds(control: ControlProcess) -> None:
    with control.client() as client:
        made = client.post("/keys", json={"role": "operator", "name": "leaver"}).json()
        with Browser(control, made["secret"]) as browser:
            token = browser.token()
            client.delete(f"/keys/{made['key']['id']}")
            # What changes something is refused at once.
            answer = browser.client.post(
                "/console/do/create_account",
                data={"token": token, "name": "too late"},
                headers={"origin": browser.origin},
            )
            assert answer.headers["location"] == "/console/sign-in"
            eventually(lambda: browser.get("/console/").is_redirect, seconds=5)
            assert browser.sign_in(made["secret"]).status_code == 403
        names = [each["name"] for each in client.get("/accounts").json()["accounts"]]
    assert "too late" not in names


def test_a_key_that_was_just_made_signs_in_while_others_look(
    control: ControlProcess, browser: Browser
) -> None:
    """Readers share the list of keys for two seconds; it is read anew for who signs in."""
    with control.client() as client:
        for name in ("first", "second"):
            browser.page("/console/fleet")
            made = client.post("/keys", json={"role": "auditor", "name": name}).json()
            with Browser(control, made["secret"]) as newcomer:
                assert name in newcomer.page("/console/fleet")


def test_a_link_leads_to_its_page_through_the_page_to_sign_in(control: ControlProcess) -> None:
    link = "/console/requests?period=7d&workflow=a%26b"
    with Browser(control, "") as browser:
        asked = browser.get(browser.get(link).headers["location"])
        found = re.search(r'name="to" value="([^"]*)"', asked.text)
        assert found is not None
        to = html.unescape(found[1])
        assert to == link
        wrong = browser.sign_in("psk_wrong", to=to)
        assert f'value="{html.escape(to)}"' in wrong.text
        assert browser.sign_in(control.keys.auditor, to=to).headers["location"] == link
        # From a mail the browser sends no cookie; a page of ours asks again, with it.
        sent = browser.get(f"/console/sign-in?{urlencode({'to': link})}", **_FROM_A_MAIL)
        assert f'content="0; url={html.escape(link)}"' in sent.text


@pytest.mark.parametrize(
    "to",
    [
        "https://evil.example/", "//evil.example/", "/\\evil.example", "/console\\..//evil.example",
        "javascript:alert(1)", "/operator/v1/keys", "/console/\r\nset-cookie: a=b",
        "/console/" * 999,
    ],
)  # fmt: skip
def test_nobody_is_led_to_another_site(control: ControlProcess, to: str) -> None:
    with Browser(control, "") as browser:
        sent = browser.get(f"/console/sign-in?{urlencode({'to': to})}", **_FROM_A_MAIL)
        assert 'content="0; url=/console/"' in sent.text
        assert browser.sign_in(control.keys.operator, to=to).headers["location"] == "/console/"


def test_guessed_keys_are_slowed_down_by_address_alone(dsn: str, tmp_path: Path) -> None:
    bounds = {"control.console_sign_ins_per_minute": 3, "control.host": "0.0.0.0"}
    with (
        control_process(dsn, tmp_path, bounds) as control,
        Browser(control) as before,
        Browser(control, "") as browser,
    ):
        # What a client says of its address counts for nothing.
        statuses = [
            browser.sign_in("psk_wrong", **{"x-forwarded-for": f"10.0.0.{number}"}).status_code
            for number in range(5)
        ]
        assert statuses == [403] * 3 + [429] * 2
        refused = browser.sign_in(control.keys.operator)
        assert refused.status_code == 429
        assert 1 <= int(refused.headers["retry-after"]) <= 60
        # Whoever is in stays in, and others come in from elsewhere.
        before.page("/console/")
        elsewhere = httpx.HTTPTransport(local_address="127.0.0.2")
        with httpx.Client(transport=elsewhere, base_url=control.url) as client:
            answer = client.post(
                "/console/sign-in",
                data={"key": control.keys.operator},
                headers={"origin": control.url},
            )
            assert answer.status_code == 303
        log = (tmp_path / "control.log").read_text()
        assert "console_sign_in_refused" in log
        assert control.keys.operator not in log
        assert "psk_wrong" not in log


def test_an_eager_session_is_slowed_down(dsn: str, tmp_path: Path) -> None:
    with (
        control_process(dsn, tmp_path, {"control.requests_per_minute": 5}) as control,
        Browser(control) as eager,
        Browser(control) as other,
    ):
        statuses = [eager.get("/console/request").status_code for _ in range(7)]
        assert statuses == [200] * 5 + [429] * 2
        assert int(eager.get("/console/request").headers["retry-after"]) >= 1
        other.page("/console/request")


def test_behind_tls_the_cookie_is_for_tls_alone(dsn: str, tmp_path: Path) -> None:
    with (
        control_process(dsn, tmp_path, {"control.console_url": _URL}) as control,
        httpx.Client(base_url=control.url, trust_env=False) as client,
    ):

        def sign_in(origin: str) -> httpx.Response:
            key = {"key": control.keys.operator}
            return client.post("/console/sign-in", data=key, headers={"origin": origin})

        for origin in (control.url, _URL.replace("https", "http"), f"{_URL}:8443", f"{_URL}/"):
            assert sign_in(origin).status_code == 403
        cookie = sign_in(_URL).headers["set-cookie"]
        assert cookie.startswith("__Host-penstock=")
        for needed in ("Secure", "HttpOnly", "Path=/", "SameSite=strict"):
            assert needed in cookie
        assert "domain" not in cookie.lower()
        value = cookie.partition(";")[0]
        page = client.get("/console/request", headers={"cookie": value})
        assert page.status_code == 200
        # The name without its prefix could have been set by a neighbour.
        bare = value.removeprefix("__Host-")
        assert client.get("/console/", headers={"cookie": bare}).status_code == 303
        [token] = set(re.findall(r'name="token" value="(\w+)"', page.text))
        out = client.post(
            "/console/sign-out", data={"token": token}, headers={"origin": _URL, "cookie": value}
        )
        # A browser takes the end of such a cookie only with what began it.
        ended = out.headers["set-cookie"]
        assert ended.startswith("__Host-penstock=")
        assert ("Secure" in ended, "Max-Age=0" in ended) == (True, True)
