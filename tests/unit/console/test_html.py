"""Templates: what is inserted is text, however hostile, and static files have their digests."""

import hashlib
from importlib.resources import files

from penstock.console.screens.html import Templates, prose, whole
from penstock.console.texts import text


def test_labels_are_cut_and_lose_what_steers_their_reader() -> None:
    assert text("a\u202eb\u2066c\x00\x1b[31m") == "abc[31m"
    assert text("x" * 300) == "x" * 255 + "…"
    assert str(whole("<b>\u202e" + "x" * 300)) == "&lt;b&gt;" + "x" * 300


def test_hostile_text_is_escaped_everywhere() -> None:
    hostile = "<script>alert('x')</script>\"'>"
    page = Templates().render(
        "error.html", {"title": hostile, "message": hostile, "code": hostile, "retry_seconds": 0}
    )
    assert "<script>alert" not in page
    assert page.count("&lt;script&gt;") >= 3


def test_static_files_are_named_by_their_content() -> None:
    statics = Templates().statics
    for name, place in statics.items():
        content = (files("penstock.console") / "static").joinpath(*place.split("/")).read_bytes()
        assert hashlib.sha256(content).hexdigest()[:12] in name
    assert {
        "console.css",
        "console.js",
        "mark.svg",
        "playground.js",
        "vendor/htmx-4.0.0.min.js",
    } == {*statics.values()}


def test_foreign_files_are_those_that_were_looked_at() -> None:
    vendor = files("penstock.console") / "static" / "vendor"
    lines = (vendor / "SHA256SUMS").read_text().splitlines()
    sums = {name: digest for digest, name in map(str.split, lines)}
    found = {each.name for each in vendor.iterdir() if each.name.endswith(".js")}
    assert found == set(sums)
    for name in found:
        assert hashlib.sha256((vendor / name).read_bytes()).hexdigest() == sums[name]
    assert "Zero-Clause BSD" in (vendor / "htmx-LICENSE").read_text()


def test_backticks_in_sentences_are_code_and_nothing_in_them_is_markup() -> None:
    said = prose("Look with `penstock replicas show <b>`, then `x`.")
    assert str(said) == (
        "Look with <code>penstock replicas show &lt;b&gt;</code>, then <code>x</code>."
    )
    assert str(prose("an odd ` <b>")) == "an odd ` &lt;b&gt;"
