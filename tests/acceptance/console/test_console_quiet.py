"""The check that nothing went wrong in the browser finds each thing that can go wrong there."""

import http.server
import threading
from collections.abc import Iterator

import pytest
from tests.acceptance.console.console_cell import ConsoleReader, is_of
from tests.acceptance.site_browser import Browser

_POLICY = "default-src 'none'; script-src 'self'; img-src 'self' data:"
_PAGE = "<!doctype html><title>A page</title><link rel=icon href=data:,><body>{}</body>"
# By path: a page, and the script that it loads.
_SCRIPTS = {
    "/well.js": "document.title = 'Well'",
    "/logged.js": "console.error('something went wrong')",
    "/thrown.js": "throw new Error('nobody caught it')",
    "/missing.js": "document.body.append(Object.assign(new Image(), {src: '/nothing.png'}))",
    "/later.js": "",
}
_INLINE = "<script>document.title = 'Inline'</script>"
# The same machine under another name is another host for a browser.
_FOREIGN = "<img src='http://localhost:{}/nothing.png'>"


class _Pages(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        name = self.path.strip("/")
        if self.path in _SCRIPTS:
            self._answer(_SCRIPTS[self.path], "text/javascript")
        elif name == "inline":
            self._answer(_PAGE.format(_INLINE))
        elif name == "foreign":
            port = self.headers["host"].partition(":")[2]
            self._answer(_PAGE.format(_FOREIGN.format(port)), policy="")
        elif f"/{name}.js" in _SCRIPTS:
            self._answer(_PAGE.format(f"<script src='/{name}.js'></script>"))
        elif name == "nothing.png":
            self.send_error(404)
        else:
            raise AssertionError(self.path)

    def _answer(self, text: str, kind: str = "text/html", policy: str = _POLICY) -> None:
        body = text.encode()
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        if policy:
            self.send_header("content-security-policy", policy)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def site() -> Iterator[str]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Pages) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.fixture
def visitor(site: str, browser: Browser) -> Iterator[ConsoleReader]:
    found = ConsoleReader(browser, site, "")
    yield found
    browser.open("about:blank")


def test_a_page_without_fault_is_quiet(visitor: ConsoleReader) -> None:
    visitor.open("/well")
    assert visitor.title() == "Well"
    visitor.check_quiet()


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("/logged", "something went wrong"),
        ("/thrown", "Uncaught"),
        ("/missing", "status of 404"),
        ("/inline", "ContentSecurityPolicyIssue"),
        ("/foreign", "http://localhost:"),
    ],
)
def test_each_fault_is_found_also_after_other_pages(
    visitor: ConsoleReader, path: str, found: str
) -> None:
    visitor.open(path)
    visitor.open("/well")
    with pytest.raises(AssertionError, match=found):
        visitor.check_quiet()
    # A fault is judged once.
    visitor.check_quiet()


def test_a_fault_of_this_moment_is_found(visitor: ConsoleReader) -> None:
    visitor.open("/later")
    visitor.browser.evaluate("void setTimeout(() => console.error('at the last moment'), 20)")
    with pytest.raises(AssertionError, match="at the last moment"):
        visitor.check_quiet()


def test_a_refusal_is_expected_with_its_status_only(visitor: ConsoleReader) -> None:
    visitor.open("/missing")
    visitor.check_quiet(refused=404)
    visitor.open("/missing")
    with pytest.raises(AssertionError, match="status of 404"):
        visitor.check_quiet(refused=403)


@pytest.mark.parametrize(
    ("url", "is_own"),
    [
        ("http://127.0.0.1:5012/console/", True),
        ("data:image/png;base64,", True),
        ("http://127.0.0.1:50123/console/", False),
        ("http://127.0.0.1:5012.example.com/", False),
        ("http://127.0.0.1:5012@example.com/", False),
        ("https://127.0.0.1:5012/console/", False),
        ("ws://127.0.0.1:5012/console/", False),
        ("http://localhost:5012/console/", False),
    ],
)
def test_addresses_are_compared_by_origin(url: str, is_own: bool) -> None:
    assert is_of("http://127.0.0.1:5012", url) is is_own
