"""Cookies of browsers: whose they are, how long they last, and that none can be made up."""

from base64 import urlsafe_b64decode, urlsafe_b64encode

import pytest

from penstock.console.screens.session_cookie import SessionCookies
from penstock.console.settings import ControlSettings
from penstock.testing.manual_clock import ManualClock

SETTINGS = ControlSettings(console_session_hours=8, console_idle_minutes=30)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


def cookies(clock: ManualClock, secret: bytes = b"s" * 32) -> SessionCookies:
    return SessionCookies(secret, SETTINGS, clock)


def test_a_cookie_is_read_by_every_process_of_the_cell(clock: ManualClock) -> None:
    session = cookies(clock).begin("key-1")
    cookie = cookies(clock).write(session)
    assert cookies(clock).read(cookie) == session
    assert cookies(clock, b"t" * 32).read(cookie) is None


def test_no_bit_of_a_cookie_can_be_changed(clock: ManualClock) -> None:
    cookie = cookies(clock).write(cookies(clock).begin("key-1"))
    data = bytearray(urlsafe_b64decode(cookie + "=" * (-len(cookie) % 4)))
    for at in range(len(data)):
        for bit in (1, 128):
            forged = bytes([*data[:at], data[at] ^ bit, *data[at + 1 :]])
            text = urlsafe_b64encode(forged).decode().rstrip("=")
            assert cookies(clock).read(text) is None, at


@pytest.mark.parametrize("cookie", ["", "x", "é", "a" * 10_000, "=" * 40, "..", "null"])
def test_what_is_no_cookie_is_nobody(clock: ManualClock, cookie: str) -> None:
    assert cookies(clock).read(cookie) is None


def test_a_session_ends_when_it_is_idle_or_old(clock: ManualClock) -> None:
    made = cookies(clock)
    session = made.begin("key-1")
    clock.advance(29 * 60)
    assert made.read(made.write(session)) == session
    clock.advance(2 * 60)
    assert made.read(made.write(session)) is None
    # Whoever goes on asking stays, up to eight hours.
    session = made.begin("key-1")
    for _ in range(8 * 4 - 1):
        clock.advance(15 * 60)
        renewed = made.renewed(session)
        assert renewed is not None
        session = renewed
        assert made.read(made.write(session)) == session
    clock.advance(16 * 60)
    assert made.read(made.write(session)) is None


def test_a_cookie_is_not_renewed_at_each_request_of_a_live_page(clock: ManualClock) -> None:
    made = cookies(clock)
    session = made.begin("key-1")
    clock.advance(10)
    assert made.renewed(session) is None
    clock.advance(60)
    assert made.renewed(session) is not None


def test_forms_of_another_session_are_refused(clock: ManualClock) -> None:
    made = cookies(clock)
    mine, other = made.begin("key-1"), made.begin("key-1")
    assert made.is_form_token(mine, made.form_token(mine))
    assert not made.is_form_token(mine, made.form_token(other))
    assert not made.is_form_token(mine, "")
    assert not made.is_form_token(mine, "é")
