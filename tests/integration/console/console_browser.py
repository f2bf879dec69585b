"""A browser without a screen: it signs in, keeps its cookie, and sends the forms of pages."""

import html
import re
from types import TracebackType
from typing import Self

import httpx
from tests.integration.cells.control_process import ControlProcess

_TOKEN = re.compile(r'name="token" value="([0-9a-f]{64})"')
_LINK = re.compile(r'(?:href|hx-get)="([^"]*)"')
FORM = "application/x-www-form-urlencoded"


class Browser:
    """One browser; `secret` is the key that it signs in with, "" for none."""

    def __init__(self, control: ControlProcess, secret: str | None = None) -> None:
        self.origin = control.url
        self.client = httpx.Client(base_url=control.url, trust_env=False, timeout=20)
        if secret != "":
            assert self.sign_in(secret or control.keys.operator).status_code == 303

    def sign_in(self, secret: str, to: str = "", **headers: str) -> httpx.Response:
        sent = {"origin": self.origin, **headers}
        form = {"key": secret, "to": to}
        return self.client.post("/console/sign-in", data=form, headers=sent)

    def get(self, path: str, **headers: str) -> httpx.Response:
        return self.client.get(path, headers=headers)

    def page(self, path: str) -> str:
        """Return a page that must be there."""
        answer = self.get(path)
        assert answer.status_code == 200, (path, answer.status_code, answer.text[-600:])
        return answer.text

    def token(self) -> str:
        found = _TOKEN.search(self.page("/console/request"))
        assert found is not None
        return found[1]

    def do(self, operation: str, **fields: str) -> httpx.Response:
        """Send the form of an action."""
        return self.client.post(
            f"/console/do/{operation}",
            data={"token": self.token(), "back": "/console/accounts", **fields},
            headers={"origin": self.origin},
        )

    def close(self) -> None:
        self.client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def links_of(page: str) -> list[str]:
    """Return the addresses that a page links, in their order."""
    return [html.unescape(each) for each in _LINK.findall(page)]
