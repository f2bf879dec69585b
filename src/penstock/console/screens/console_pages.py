"""Serves the console's pages: who has signed in, and what every answer carries for safety."""

import logging
from collections.abc import Awaitable, Callable, Mapping
from importlib.resources import files
from typing import Any, Final
from urllib.parse import urlencode

import msgspec
from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from penstock.clock import Clock
from penstock.console.rooms import OperatorRooms
from penstock.console.screens.actions import act
from penstock.console.screens.forms import (
    is_from_another_site,
    own_page,
    read_form,
    read_query,
)
from penstock.console.screens.html import Templates, exact
from penstock.console.screens.page import PageRequest, Screen
from penstock.console.screens.page_view import PERIODS, PageView, read_view
from penstock.console.screens.playground import PlaygroundProxy
from penstock.console.screens.readers import Readers
from penstock.console.screens.safety_headers import ROOT
from penstock.console.screens.screens import SCREENS
from penstock.console.screens.searching import page_of
from penstock.console.screens.session_cookie import BrowserSession
from penstock.console.screens.shared_readings import SharedReadings
from penstock.console.settings import ControlSettings
from penstock.console.sign_in import MinuteCounts
from penstock.errors import (
    Error,
    Forbidden,
    InternalError,
    NotFound,
    RateLimited,
    StoreUnavailable,
    Unauthenticated,
)
from penstock.ingress import error_response
from penstock.ingress.pages.json_pages import error_page
from penstock.records.account import Role

_SIGN_IN: Final = f"{ROOT}/sign-in"
_COOKIE: Final = "penstock"
# A browser takes this name only over TLS, for this host alone.
_COOKIE_TLS: Final = "__Host-penstock"
_TYPED_CHARS_MAX: Final = 256
_RETRY_SECONDS: Final = 3
_KEPT: Final = "public, max-age=31536000, immutable"
_TYPES: Final = {"css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}

logger = logging.getLogger(__name__)

Endpoint = Callable[[Request], Awaitable[Response]]


class ConsolePages:
    """The pages of one control process."""

    def __init__(self, rooms: OperatorRooms, settings: ControlSettings, clock: Clock) -> None:
        self._rooms = rooms
        self._settings = settings
        self._templates = Templates()
        self._readings = SharedReadings(clock)
        self._wrong: MinuteCounts[str] = MinuteCounts(settings.console_sign_ins_per_minute, clock)
        self._playground = PlaygroundProxy(rooms, settings, clock)
        self._is_tls = settings.console_url.startswith("https://")
        self._cookie = _COOKIE_TLS if self._is_tls else _COOKIE
        self._readers = Readers(rooms, settings, clock, self._readings, self._cookie)

    def routes(self) -> list[Route]:
        """Return the routes of all pages, behind the errors that they answer."""
        routes = [
            Route(screen.path, self._guarded(self._screen(screen)), methods=["GET"])
            for screen in SCREENS
        ]
        return [
            Route("/", self._guarded(self._home), methods=["GET"]),
            Route(ROOT, self._guarded(self._home), methods=["GET"]),
            Route(_SIGN_IN, self._guarded(self._sign_in_page), methods=["GET"]),
            Route(_SIGN_IN, self._guarded(self._sign_in), methods=["POST"]),
            Route(f"{ROOT}/sign-out", self._guarded(self._sign_out), methods=["POST"]),
            Route(f"{ROOT}/playground/key", self._guarded(self._take_key), methods=["POST"]),
            Route(f"{ROOT}/playground/forget", self._guarded(self._forget_key), methods=["POST"]),
            Route(f"{ROOT}/playground/ask", self._guarded(self._ask), methods=["POST"]),
            Route(f"{ROOT}/search", self._guarded(self._search), methods=["GET"]),
            Route(f"{ROOT}/do/{{operation}}", self._guarded(self._do), methods=["POST"]),
            Route(f"{ROOT}/static/{{name}}", self._guarded(self._static), methods=["GET"]),
            *routes,
            Route(f"{ROOT}/{{rest:path}}", self._guarded(self._nowhere)),
        ]

    def _guarded(self, serve: Endpoint) -> Endpoint:
        """Answer errors as pages."""

        async def guarded(request: Request) -> Response:
            try:
                return await serve(request)
            except Unauthenticated:
                # htmx would put the page to sign in into the live part of this one.
                if _is_part(request):
                    return Response(status_code=401, headers={"hx-redirect": _SIGN_IN})
                return RedirectResponse(_sign_in_for(request), 303)
            except Error as error:
                return self._error_page(request, error)
            except Exception:
                logger.exception("page failed", extra={"action": "page_failed"})
                return self._error_page(request, InternalError())

        return guarded

    def _screen(self, screen: Screen) -> Endpoint:
        async def serve(request: Request) -> Response:
            session, key = await self._readers.find(request)
            view = read_view(screen.path, read_query(request))
            page = PageRequest(
                view=view,
                key=key,
                rooms=msgspec.structs.replace(self._rooms, actor=key.id),
                readings=self._readings,
            )
            token = (await self._readers.cookies()).form_token(session)
            context = {**self._frame(page, token, screen), **await screen.read(page)}
            context["has_playground_key"] = self._playground.keys.find(session) is not None
            answer = self._html("live.html" if _is_part(request) else "page.html", context)
            return await self._renewed(answer, session)

        return serve

    async def _search(self, request: Request) -> Response:
        """Lead to the page of what was looked for."""
        _, key = await self._readers.find(request)
        page = PageRequest(
            view=read_view(request.url.path, ()),
            key=key,
            rooms=self._rooms,
            readings=self._readings,
        )
        text = dict(read_query(request)).get("q", "").strip()[:_TYPED_CHARS_MAX]
        return RedirectResponse(await page_of(page, text) if text else SCREENS[0].path, 303)

    def _frame(self, page: PageRequest, token: str, screen: Screen) -> dict[str, Any]:
        return {
            "screen": screen,
            "screens": [each for each in SCREENS if each.digit],
            "view": page.view,
            "link": _links_of(page.view),
            "periods": PERIODS,
            "may_change": page.may_change,
            "reader": page.key.name or page.key.id,
            "role": page.key.role.value,
            "token": token,
            "live_seconds": self._settings.console_live_seconds,
            "playground_url": self._settings.console_gateway_url,
        }

    async def _home(self, _: Request) -> Response:
        return RedirectResponse(SCREENS[0].path, 303)

    async def _nowhere(self, request: Request) -> Response:
        await self._readers.find(request)
        raise NotFound("There is no such page.")

    async def _sign_in_page(self, request: Request) -> Response:
        to = dict(read_query(request)).get("to", "")
        if is_from_another_site(request):
            # A link from a mail or a chat: the browser keeps the cookie back until a page of ours
            # asks.
            return self._html("onward.html", {"to": own_page(to)})
        return self._html("sign_in.html", {"problem": "", "to": to})

    async def _sign_in(self, request: Request) -> Response:
        """Take a key once, and give the browser a cookie for it."""
        self._check_origin(request)
        address = request.client.host if request.client else ""
        if self._wrong.is_full(address):
            raise RateLimited(
                "Too many sign-ins with a wrong key from this address.",
                retry_after_seconds=self._wrong.seconds_left,
            )
        form = await read_form(request)
        secret = form.get("key", "").strip()[:_TYPED_CHARS_MAX]
        key = await self._rooms.keys.find(secret.encode()) if secret else None
        if key is None or key.is_revoked or key.role is Role.RUNTIME:
            self._wrong.add(address)
            logger.warning(
                "console sign-in refused",
                extra={"action": "console_sign_in_refused", "address": address},
            )
            problem = (
                "This is an agent's key. Operators and auditors sign in here."
                if key is not None and not key.is_revoked
                else "This key is unknown or revoked."
            )
            return self._html("sign_in.html", {"problem": problem, "to": form.get("to", "")}, 403)
        logger.info("console sign-in", extra={"action": "console_sign_in", "key": key.id})
        # The keys that readers share were read before this one was made, perhaps.
        self._readings.forget()
        answer = RedirectResponse(own_page(form.get("to", "")), 303)
        cookies = await self._readers.cookies()
        self._give_cookie(answer, cookies.write(cookies.begin(key.id)))
        return answer

    async def _sign_out(self, request: Request) -> Response:
        session, _ = await self._readers.find(request)
        await self._checked_form(request, session)
        self._playground.keys.forget(session)
        answer = RedirectResponse(_SIGN_IN, 303)
        self._give_cookie(answer, "", ends_in=0)
        return answer

    async def _do(self, request: Request) -> Response:
        """Run an operation that changes something, from a form."""
        session, known = await self._readers.find(request)
        form = await self._checked_form(request, session)
        key = await self._readers.look_up(known)
        rooms = msgspec.structs.replace(self._rooms, actor=key.id)
        try:
            done = await act(rooms, key, str(request.path_params["operation"]), form)
        finally:
            # The page that comes next shows what was changed.
            self._readings.forget()
        if done.shown is not None:
            page = self._html("secret.html", {"title": done.said, "secret": done.shown,
                                              "back": done.back})  # fmt: skip
            return await self._renewed(page, session)
        return await self._renewed(RedirectResponse(done.back, 303), session)

    async def _take_key(self, request: Request) -> Response:
        session, _ = await self._readers.find(request)
        form = await self._checked_form(request, session)
        await self._playground.take_key(session, form.get("key", "").strip()[:_TYPED_CHARS_MAX])
        return RedirectResponse(f"{ROOT}/playground", 303)

    async def _forget_key(self, request: Request) -> Response:
        session, _ = await self._readers.find(request)
        await self._checked_form(request, session)
        self._playground.keys.forget(session)
        return RedirectResponse(f"{ROOT}/playground", 303)

    async def _ask(self, request: Request) -> Response:
        """Pass a chat request on, from the page's script; errors are JSON, as a gateway's are."""
        try:
            session, _ = await self._readers.find(request)
            self._check_origin(request)
            cookies = await self._readers.cookies()
            if not cookies.is_form_token(session, request.headers.get("x-form-token", "")):
                raise Forbidden("This page is not of this session: load it again.")
            return await self._playground.ask(session, await request.body(), request.headers)
        except Error as error:
            return error_page(request, error)

    async def _static(self, request: Request) -> Response:
        name = str(request.path_params["name"])
        place = self._templates.statics.get(name)
        if place is None:
            raise NotFound("There is no such file.")
        content = (files("penstock.console") / "static").joinpath(*place.split("/")).read_bytes()
        kind = _TYPES[place.rpartition(".")[2]]
        return Response(content, media_type=kind, headers={"cache-control": _KEPT})

    async def _checked_form(self, request: Request, session: BrowserSession) -> dict[str, str]:
        """Return a form's fields; refuse one that another site made."""
        self._check_origin(request)
        form = await read_form(request)
        cookies = await self._readers.cookies()
        if not cookies.is_form_token(session, form.pop("token", "")):
            raise Forbidden("This form is not of this session: load its page again.")
        return form

    def _check_origin(self, request: Request) -> None:
        given = request.headers.get("origin")
        expected = self._settings.console_url or f"http://{request.headers.get('host', '')}"
        if given is None or given != expected:
            raise Forbidden(
                "This form comes from another site. Behind a proxy, set control.console_url."
            )

    async def _renewed(self, answer: Response, session: BrowserSession) -> Response:
        cookies = await self._readers.cookies()
        renewed = cookies.renewed(session)
        if renewed is not None:
            self._give_cookie(answer, cookies.write(renewed))
        return answer

    def _give_cookie(self, answer: Response, value: str, ends_in: int | None = None) -> None:
        # Browsers heed neither a new __Host- cookie nor the end of one without all of these.
        answer.set_cookie(
            self._cookie,
            value,
            max_age=ends_in,
            path="/",
            secure=self._is_tls,
            httponly=True,
            samesite="strict",
        )

    def _html(self, template: str, context: Mapping[str, Any], status: int = 200) -> Response:
        page = self._templates.render(template, context)
        return Response(page, status, media_type="text/html; charset=utf-8")

    def _error_page(self, request: Request, error: Error) -> Response:
        is_away = isinstance(error, StoreUnavailable)
        # What may come back by itself is asked for again; but not an act, of which only whoever
        # sent it knows whether it should be done again.
        comes_back = (is_away or error.status in (429, 503)) and request.method != "POST"
        context = {
            "message": error.message,
            "code": error.code,
            "title": "Postgres does not answer" if is_away else "This did not work",
            "retry_seconds": _RETRY_SECONDS if comes_back else 0,
        }
        template = "error_part.html" if _is_part(request) else "error.html"
        answer = self._html(template, context, error.status)
        for name, value in error_response.headers(error):
            answer.headers[name.decode()] = value.decode()
        return answer


def _is_part(request: Request) -> bool:
    """Return whether a live region asks, for itself alone."""
    return request.headers.get("hx-request") == "true"


def _sign_in_for(request: Request) -> str:
    """Return the page to sign in, which leads back to the page that was asked for."""
    path, query = request.url.path, request.url.query
    asked = f"{path}?{query}" if query else path
    if request.method != "GET" or own_page(asked) == SCREENS[0].path:
        return _SIGN_IN
    return f"{_SIGN_IN}?{urlencode({'to': asked})}"


def _links_of(view: PageView) -> Callable[..., Markup]:
    """Return what templates link with: addresses are not cut as texts are."""

    def link(path: str | None = None, /, **changes: str | None) -> Markup:
        return exact(view.link(path, **changes))

    return link
