"""The docs as a site, in a real browser: light and dark, desktop and phone, and nothing fetched."""

import functools
import http.server
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.acceptance.site_browser import Browser

ROOT = Path(__file__).parents[2]
PAGES = (
    "",
    "quickstart/",
    "gpu-host/",
    "clients/",
    "apis/",
    "prompts-that-hit/",
    "flex/",
    "replicas/",
    "operating/",
    "cli/",
    "bench-and-demo/",
    "examples/",
    "catalogue/",
    "measurements-routing/",
    "why-was-i-billed-this/",
    "architecture/",
    "rooms-and-rules/",
    "glossary/",
    "decisions/0017-routing/",
    "reference/endpoints/",
    "reference/errors/",
    "reference/configuration/",
    "reference/cli/",
    "reference/api/inference/",
    "source/src/penstock/serving/request_path.py/",
)
# Every kind of thing that a page can have: tables, tabs, pictures, plots, code.
DARK_PAGES = (
    "",
    "clients/",
    "flex/",
    "architecture/",
    "measurements-routing/",
    "reference/errors/",
    "source/src/penstock/serving/request_path.py/",
)
SIZES = {"desktop": (1280, 900), "phone": (390, 844)}
SCHEMES = {"light": "default", "dark": "slate"}

_WIDE = """[document.documentElement.scrollWidth, window.innerWidth]"""
# Tables of figures, with many columns, scroll.
_CUT_TABLES = """[...document.querySelectorAll('article table')]
    .filter(one => one.querySelectorAll('thead th').length < 5)
    .filter(one => one.getBoundingClientRect().right > window.innerWidth + 1)
    .map(one => one.textContent.slice(0, 60))"""
_BROKEN_IMAGES = """[...document.images].filter(one => !(one.complete && one.naturalWidth))
    .map(one => one.src)"""
_SCHEME = "document.body.getAttribute('data-md-color-scheme')"
_LEFTOVERS = """[...document.querySelectorAll('article p, article li, article td')]
    .map(one => one.cloneNode(true))
    .map(one => (one.querySelectorAll('code').forEach(code => code.remove()), one.textContent))
    .filter(text => /```|^=== "|^!!! |block: /.test(text))"""


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("site")
    build = [sys.executable, "-m", "mkdocs", "build", "--strict", "-d", str(folder)]
    done = subprocess.run(build, cwd=ROOT, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    handler = functools.partial(_Quiet, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()
        thread.join()


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    opened = Browser(tmp_path_factory.mktemp("chromium"))
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("pictures")


@pytest.mark.timeout(180)
@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("size", SIZES)
def test_pages_look_right_and_fetch_nothing(
    site: str, browser: Browser, pictures: Path, size: str, scheme: str
) -> None:
    browser.resize(*SIZES[size], is_phone=size == "phone")
    browser.prefer(scheme)
    for page in PAGES if scheme == "light" else DARK_PAGES:
        browser.open(site + page)
        name = page.strip("/").replace("/", "-") or "home"
        browser.picture(pictures / f"{name}-{size}-{scheme}.png")
        seen = f"{page} on a {size} in {scheme}"
        assert browser.evaluate(_SCHEME) == SCHEMES[scheme], seen
        needed, there = browser.evaluate(_WIDE)
        assert needed <= there, f"{seen} is wider than the screen"
        assert browser.evaluate(_CUT_TABLES) == [], f"{seen}: a column is off the screen"
        assert browser.evaluate(_BROKEN_IMAGES) == [], seen
        assert browser.evaluate(_LEFTOVERS) == [], f"{seen} shows its markup"
        assert [url for url in browser.requests if not url.startswith((site, "data:"))] == [], seen
        assert browser.errors == [], seen
    print("pictures are in", pictures)


def test_reader_can_switch_between_light_and_dark(site: str, browser: Browser) -> None:
    browser.resize(*SIZES["desktop"], is_phone=False)
    browser.prefer("dark")
    browser.open(site)
    seen = []
    for _ in range(3):
        shown = "[data-md-component=palette] label:not([hidden])"
        browser.evaluate(f"document.querySelector('{shown}').click()")
        seen.append(browser.evaluate(_SCHEME))
    assert seen == ["default", "slate", "slate"]
    browser.prefer("light")
    browser.open(site)
    assert browser.evaluate(_SCHEME) == "default"


def test_search_finds_a_header_without_the_network(site: str, browser: Browser) -> None:
    browser.resize(*SIZES["desktop"], is_phone=False)
    browser.open(site)
    found = browser.evaluate("""new Promise(done => {
        const field = document.querySelector('[data-md-component=search-query]');
        field.focus();
        field.value = 'x-session-affinity';
        field.dispatchEvent(new Event('keyup', {bubbles: true}));
        const look = () => document.querySelector('.md-search-result__link')?.href;
        const timer = setInterval(() => look() && (clearInterval(timer), done(look())), 50);
        setTimeout(() => (clearInterval(timer), done('')), 20000);
    })""")
    assert found.startswith(site)
    assert [url for url in browser.requests if not url.startswith((site, "data:", "blob:"))] == []


@pytest.mark.parametrize("page", ["flex/", "replicas/", "architecture/"])
def test_picture_follows_light_and_dark(site: str, browser: Browser, page: str) -> None:
    inks = []
    for scheme in SCHEMES:
        browser.prefer(scheme)
        browser.open(site + page)
        ink = "getComputedStyle(document.querySelector('figure.picture text')).fill"
        inks.append(browser.evaluate(ink))
    assert len(set(inks)) == 2, inks
