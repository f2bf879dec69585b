"""A newcomer's first minutes with a wheel, by Python's own library alone: `make verify-release`.

    python3 first_minutes.py WHEEL FOLDER

It makes a virtual environment in FOLDER, installs the wheel, starts `penstock up --imitate`, runs
the printed curl line as it stands, asks with the openai SDK, reads `status` and `usage`, and signs
in to the console; then `penstock demo`. It has an empty home, and only the variables by which this
machine reaches its package index. The last line is JSON; the time runs from the wheel to the first
answer.
"""

import json
import os
import re
import shlex
import subprocess
import sys
import time
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any

# How this machine reaches its package index; another one has its own.
_NETWORK = ("PIP_", "SSL_", "REQUESTS_", "HTTP_", "HTTPS_", "NO_PROXY", "http_", "https_")
_READY_SECONDS = 120.0
_STEP_SECONDS = 600.0
_ASK = """
from openai import OpenAI
client = OpenAI(base_url="{url}/v1", api_key="{key}")
asked = [{{"role": "user", "content": "What is the capital of France?"}}]
print(client.chat.completions.create(model="default", messages=asked).usage.total_tokens)
"""


class NewcomerError(Exception):
    """A step that did not do what the documentation says."""


class Newcomer:
    """Runs commands in a folder of their own."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._bin = folder / "venv" / "bin"
        home = folder / "home"
        home.mkdir(parents=True)
        inherited = os.environ  # noqa: TID251 - handed on, no setting is read
        network = {key: value for key, value in inherited.items() if key.startswith(_NETWORK)}
        self._environment = {
            **network,
            "HOME": str(home),
            "PATH": f"{self._bin}:/usr/local/bin:/usr/bin:/bin",
            "LANG": "C.UTF-8",
        }

    def run(self, *command: str) -> str:
        """Run a command to its end, and return what it printed."""
        done = subprocess.run(
            command,
            cwd=self._folder,
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=_STEP_SECONDS,
            check=False,
        )
        if done.returncode:
            raise NewcomerError(f"{shlex.join(command)}: {done.returncode}\n{done.stderr[-2000:]}")
        return done.stdout

    def start(self, *command: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            command, cwd=self._folder, env=self._environment, stdout=subprocess.PIPE, text=True
        )

    def python(self, program: str) -> str:
        return self.run(str(self._bin / "python"), "-c", program)


def first_minutes(wheel: Path, folder: Path) -> dict[str, Any]:
    """Do everything; NewcomerError says what did not go as promised."""
    newcomer = Newcomer(folder)
    began = time.monotonic()
    newcomer.run(sys.executable, "-m", "venv", "venv")
    newcomer.run("pip", "install", "--quiet", f"{wheel}[up]")
    up = newcomer.start("penstock", "up", "--imitate", "--port", "0", "--metrics-port", "0")
    try:
        line, facts = _ready(up)
        answer = json.loads(newcomer.run("sh", "-c", line))
        seconds = time.monotonic() - began
        if "imitated" not in answer["choices"][0]["message"]["content"]:
            raise NewcomerError(f"The printed line got {answer}.")
        newcomer.run("pip", "install", "--quiet", "openai")
        tokens = newcomer.python(_ASK.format(**facts))
        status = json.loads(newcomer.run("penstock", "status", "--json"))
        if not status["replicas"] or not int(tokens):
            raise NewcomerError(f"The status is {status}, the tokens {tokens}.")
        _check_dollars(newcomer)
        _check_console(newcomer, status["operator_url"])
    finally:
        newcomer.run("penstock", "stop")
        up.wait(_READY_SECONDS)
    acts = json.loads(newcomer.run("penstock", "demo", "--quick", "--json", "-"))
    return {
        "wheel_starts": 1,
        "demo_acts": len(acts),
        "seconds_to_first_answer": round(seconds, 1),
    }


def _ready(up: subprocess.Popen[str]) -> tuple[str, dict[str, str]]:
    """Return the printed curl line, and the address and the key in it."""
    deadline = time.monotonic() + _READY_SECONDS
    assert up.stdout is not None
    for line in up.stdout:
        if line.startswith("curl "):
            words = shlex.split(line)
            url = words[1].removesuffix("/v1/chat/completions")
            return line, {"url": url, "key": words[3].rpartition(" ")[2]}
        if time.monotonic() > deadline:
            break
    raise NewcomerError("`penstock up --imitate` printed no curl line.")


def _check_dollars(newcomer: Newcomer) -> None:
    """The ledger is filled about a second after an answer."""
    deadline = time.monotonic() + _READY_SECONDS
    while time.monotonic() < deadline:
        rows = json.loads(newcomer.run("penstock", "usage", "--json"))["rows"]
        if rows and rows[0]["cost_nanousd"] and rows[0]["requests"] == 2:
            return
        time.sleep(0.5)
    raise NewcomerError("`penstock usage` shows no dollars.")


def _check_console(newcomer: Newcomer, url: str) -> None:
    """Sign in, and get the first page with all that it needs, which comes from the wheel."""
    key = json.loads(newcomer.run("penstock", "key", "create", "--operator", "--json"))["secret"]
    # Cookies are kept, and no proxy is asked.
    opener = urllib.request.build_opener(
        urllib.request.HTTPCookieProcessor(), urllib.request.ProxyHandler({})
    )
    form = urllib.parse.urlencode({"key": key}).encode()
    door = f"{url}/console/sign-in"
    asked = urllib.request.Request(door, form, {"Origin": url})  # noqa: S310 - control's address
    page = opener.open(asked, timeout=_STEP_SECONDS).read().decode()
    needed = re.findall(r'(?:src|href)="([^"]+\.(?:css|js|svg))"', page)
    if "<h1>" not in page or not needed:
        raise NewcomerError(f"The console's first page is {page[:500]}.")
    for file in needed:
        # A file of another host is no file of the console.
        if not file.startswith("/console/static/") or not opener.open(url + file).read():
            raise NewcomerError(f"The console needs {file}.")


if __name__ == "__main__":
    print(json.dumps(first_minutes(Path(sys.argv[1]).absolute(), Path(sys.argv[2]).absolute())))
