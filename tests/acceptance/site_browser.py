"""A headless Chromium that tests drive by its DevTools protocol, over two pipes.

It notes every request that a page makes and every error on its console. Clicks and keys are real
input events, so what covers an element or holds the focus counts. A test may take the mouse away.
Ended by pid.
"""

import base64
import fcntl
import json
import os
import select
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or "/usr/bin/chromium"
_OPTIONS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--no-first-run",
    "--hide-scrollbars",
    "--remote-debugging-pipe",
)
_ANSWER_SECONDS = 30.0
_LOOK_SECONDS = 0.05
# Keys that are no letters, with their codes in Chromium.
_KEY_CODES = {
    "Enter": 13, "Escape": 27, "Tab": 9, "Backspace": 8, " ": 32, "ArrowDown": 40, "Home": 36,
}  # fmt: skip
_KEY_TEXTS = {"Enter": "\r"} | dict.fromkeys(_KEY_CODES.keys() - {"Enter", " "}, "")
_MODIFIERS = {"Shift": 8, "Control": 2}
# What Chromium does at a key only if it is told so.
_COMMANDS = {"Control+a": ["selectAll"]}
# Presses of Tab that reach every element of a page with a hundred rows.
_TABS_MAX = 600
# The next frame, and a moment in which the scripts of a page run on.
_FRAME = "new Promise(done => requestAnimationFrame(() => setTimeout(done, 50)))"
_PLACE = """(() => {
    const found = %s;
    if (!found) return null;
    found.scrollIntoView({block: 'center', inline: 'center', behavior: 'instant'});
    const box = found.getClientRects()[0];
    return box ? [box.left + box.width / 2, box.top + box.height / 2] : null;
})()"""


class Browser:
    """One tab. `open` loads a page afresh; `requests` and `errors` are of the page that is open.

    `all_requests` and `all_errors` are of all pages since `forget`, whatever led to them.
    """

    def __init__(self, profile: Path) -> None:
        self.requests: list[str] = []
        self.errors: list[str] = []
        self.all_requests: list[str] = []
        self.all_errors: list[str] = []
        # Without a mouse, `click` fails, and `activate` uses the keyboard.
        self.has_mouse = True
        self._has_loaded = False
        self._unread = b""
        self._count = 0
        self._session = ""
        self._process, self._write, self._read = _started(profile)
        target = self._call("Target.createTarget", url="about:blank")["targetId"]
        attached = self._call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Network", "Log", "Runtime", "Audits"):
            self._call(f"{domain}.enable")

    def resize(self, width: int, height: int, *, is_phone: bool) -> None:
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": is_phone}
        self._call("Emulation.setDeviceMetricsOverride", **size)

    def prefer(self, scheme: str) -> None:
        """`light` or `dark`, as the reader's system would say."""
        wish = [{"name": "prefers-color-scheme", "value": scheme}]
        self._call("Emulation.setEmulatedMedia", features=wish)

    def open(self, url: str) -> None:
        """Load the page in a fresh tab's state, and wait until everything in it is there."""
        # A page that only changes its anchor is not loaded again.
        self._load("about:blank")
        self.requests.clear()
        self.errors.clear()
        self._load(url)
        self.settle()

    def settle(self) -> None:
        """Wait for the next frame; what the page asked for or logged until now is noted then."""
        self.evaluate(_FRAME)

    def forget(self) -> None:
        """Begin `all_requests` and `all_errors` anew."""
        self.all_requests.clear()
        self.all_errors.clear()

    def evaluate(self, script: str) -> Any:
        """What a script in the page says; promises are waited for."""
        told = self._call(
            "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in told, told["exceptionDetails"]
        return told["result"].get("value")

    def activate(self, selector: str) -> None:
        """Click on the first element of a selector; without a mouse, go to it and press Enter."""
        if self.has_mouse:
            self.click(selector)
            return
        self.focus(selector)
        # A box to tick and a button in a form do not all heed Enter; a space works for both.
        is_button = self.evaluate("document.activeElement.matches('button, [type=checkbox]')")
        self.press(" " if is_button else "Enter")

    def focus(self, selector: str) -> None:
        """Give the focus to the first element of a selector: by a click, or by pressing Tab."""
        if self.has_mouse:
            self.click(selector)
            return
        found = f"document.querySelector({json.dumps(selector)})"
        self.wait_for(f"!!{found}", f"no {selector} to go to")
        for _ in range(_TABS_MAX):
            if self.evaluate(f"document.activeElement === {found}"):
                return
            self.press("Tab")
        raise AssertionError(f"Tab does not reach {selector}")

    def choose(self, selector: str, value: str) -> None:
        """Choose an option of a list by keys: a click would open it, outside of the page."""
        if self.has_mouse:
            self.evaluate(f"document.querySelector({json.dumps(selector)}).focus()")
        else:
            self.focus(selector)
        self.press("Home")
        for _ in range(self.evaluate("document.activeElement.options.length")):
            if self.evaluate("document.activeElement.value") == value:
                return
            self.press("ArrowDown")
        raise AssertionError(f"{selector} has no {value}")

    def click(self, selector: str) -> None:
        """Press and release the mouse in the middle of the first element of a selector."""
        self.click_on(f"document.querySelector({json.dumps(selector)})")

    def click_on(self, element: str) -> None:
        """Press and release the mouse in the middle of the element that a script finds."""
        assert self.has_mouse, f"a click on {element} where only keys are allowed"
        place = self.wait_for(_PLACE % element, f"no {element} to click")
        mouse = {"x": place[0], "y": place[1], "button": "left", "clickCount": 1}
        for kind in ("mousePressed", "mouseReleased"):
            self._call("Input.dispatchMouseEvent", type=kind, **mouse)

    def press(self, *keys: str) -> None:
        """Press keys one after the other, as `Enter`, `Shift+Tab` or a character."""
        for name in keys:
            modifier, _, key = name.rpartition("+") if len(name) > 1 else ("", "", name)
            code = _KEY_CODES.get(key, ord(key.upper()) if len(key) == 1 else 0)
            event: dict[str, Any] = {"key": key, "windowsVirtualKeyCode": code}
            event["modifiers"] = _MODIFIERS.get(modifier, 0)
            text = "" if modifier == "Control" else _KEY_TEXTS.get(key, key)
            down: dict[str, Any] = {"type": "keyDown", "text": text}
            if not text:
                down = {"type": "rawKeyDown", "commands": _COMMANDS.get(name, [])}
            self._call("Input.dispatchKeyEvent", **event, **down)
            self._call("Input.dispatchKeyEvent", type="keyUp", **event)

    def type(self, text: str) -> None:
        """Put a text where the focus is, as a paste does."""
        self._call("Input.insertText", text=text)

    def wait_for(self, script: str, failure: str, seconds: float = 10.0) -> Any:
        """The first true value of a script; a page that is just being loaded is asked again."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            answer = self._ask(
                "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True
            )
            value = answer.get("result", {}).get("result", {}).get("value")
            if value:
                return value
            time.sleep(_LOOK_SECONDS)
        raise AssertionError(f"{failure} on {self.evaluate('location.href')}")

    def allow(self, origin: str, *permissions: str) -> None:
        """Grant what a person would be asked for, such as `clipboardReadWrite`."""
        self._call("Browser.grantPermissions", origin=origin, permissions=list(permissions))

    def delete_cookies(self) -> None:
        self._call("Network.clearBrowserCookies")

    def picture(self, file: Path, *, is_whole: bool = False) -> None:
        """The part of the page that is seen, or all of it, as a PNG."""
        shot = self._call("Page.captureScreenshot", format="png", captureBeyondViewport=is_whole)
        file.write_bytes(base64.b64decode(shot["data"]))

    def close(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._write)
        os.close(self._read)

    def _call(self, method: str, **parameters: Any) -> dict[str, Any]:
        answer = self._ask(method, **parameters)
        assert "error" not in answer, answer
        result: dict[str, Any] = answer["result"]
        return result

    def _ask(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Chromium's whole answer, which may be an error."""
        self._count += 1
        message: dict[str, Any] = {"id": self._count, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while True:
            told = self._next()
            if told.get("id") == self._count:
                return told
            self._note(told)

    def _load(self, url: str) -> None:
        self._has_loaded = False
        self._call("Page.navigate", url=url)
        while not self._has_loaded:
            self._note(self._next())

    def _next(self) -> dict[str, Any]:
        deadline = time.monotonic() + _ANSWER_SECONDS
        while b"\0" not in self._unread:
            ready, _, _ = select.select([self._read], [], [], max(0, deadline - time.monotonic()))
            assert ready, f"Chromium said nothing for {_ANSWER_SECONDS} s"
            piece = os.read(self._read, 1 << 20)
            assert piece, "Chromium has ended"
            self._unread += piece
        line, _, self._unread = self._unread.partition(b"\0")
        told: dict[str, Any] = json.loads(line)
        return told

    def _note(self, told: dict[str, Any]) -> None:
        about = told["params"]
        match told["method"]:
            case "Page.loadEventFired":
                self._has_loaded = True
            case "Network.requestWillBeSent":
                self._note_request(about["request"]["url"])
            case "Network.webSocketCreated":
                self._note_request(about["url"])
            case "Network.loadingFailed" if not about.get("canceled"):
                self._note_error(f"not loaded: {about['errorText']}")
            case "Log.entryAdded" if about["entry"]["level"] == "error":
                self._note_error(about["entry"]["text"])
            case "Runtime.exceptionThrown":
                self._note_error(about["exceptionDetails"]["text"])
            case "Runtime.consoleAPICalled" if about["type"] == "error":
                self._note_error(str(about["args"]))
            case "Audits.issueAdded" if "ContentSecurity" in about["issue"]["code"]:
                self._note_error(str(about["issue"]))

    def _note_request(self, url: str) -> None:
        self.requests.append(url)
        self.all_requests.append(url)

    def _note_error(self, error: str) -> None:
        self.errors.append(error)
        self.all_errors.append(error)


def _started(profile: Path) -> tuple[subprocess.Popen[bytes], int, int]:
    """The process, where to write to it and where to read from it."""
    its_input, ours_out = _pipe()
    ours_in, its_output = _pipe()
    command = (CHROMIUM, *_OPTIONS, f"--user-data-dir={profile}")
    process = subprocess.Popen(
        ["/bin/bash", "-c", f'exec "$@" 3<&{its_input} 4>&{its_output}', "bash", *command],
        pass_fds=(its_input, its_output),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    os.close(its_input)
    os.close(its_output)
    return process, ours_out, ours_in


def _pipe() -> tuple[int, int]:
    """Chromium wants numbers 3 and 4, so ours must be others."""
    ends = os.pipe()
    moved = [fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 10) for end in ends]
    for end in ends:
        os.close(end)
    return moved[0], moved[1]
