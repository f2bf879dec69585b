"""What is printed when everything is ready."""

import json
import shlex

import msgspec
import pytest

from penstock.cli.up.announcement import Announcement, curl_line

ANNOUNCEMENT = Announcement(
    base_url="http://127.0.0.1:8787",
    account="a" * 32,
    key="psk_secret",
    model='it\'s "odd"',
    models=('it\'s "odd"', "other"),
    state="/srv/[red]",
    metrics_url=None,
    console_url="http://127.0.0.1:8790/console/",
    has_operator_key=True,
    pids={"up": 1},
    start_seconds=9.4,
)


def test_curl_line_means_to_a_shell_what_it_should() -> None:
    words = shlex.split(curl_line(ANNOUNCEMENT))
    assert words[:2] == ["curl", "http://127.0.0.1:8787/v1/chat/completions"]
    assert "Authorization: Bearer psk_secret" in words
    body = json.loads(words[words.index("-d") + 1])
    assert body["model"] == ANNOUNCEMENT.model
    assert body["messages"][0]["role"] == "user"


def test_people_see_where_and_who_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    ANNOUNCEMENT.print(is_new=True, is_json=False)
    shown = capsys.readouterr().out
    assert "http://127.0.0.1:8787/v1\n" in shown
    assert f"/client/v4/accounts/{'a' * 32}/ai\n" in shown
    assert "made now and kept in /srv/[red]/account.json" in shown
    assert f"\n{curl_line(ANNOUNCEMENT)}\n" in shown
    assert "8790/console/  (sign in with the key in /srv/[red]/operator.key)" in shown


def test_no_key_is_named_where_the_database_is_not_ups_own(
    capsys: pytest.CaptureFixture[str],
) -> None:
    msgspec.structs.replace(ANNOUNCEMENT, has_operator_key=False).print(is_new=True, is_json=False)
    assert "/console/  (sign in with an operator's key)" in capsys.readouterr().out


def test_a_cell_without_a_console_names_none(capsys: pytest.CaptureFixture[str]) -> None:
    without = msgspec.structs.replace(ANNOUNCEMENT, console_url=None)
    without.print(is_new=True, is_json=False)
    assert "Console" not in capsys.readouterr().out


def test_scripts_get_one_line_of_json(capsys: pytest.CaptureFixture[str]) -> None:
    ANNOUNCEMENT.print(is_new=False, is_json=True)
    shown = capsys.readouterr().out
    assert shown.count("\n") == 1
    assert msgspec.json.decode(shown, type=Announcement) == ANNOUNCEMENT
