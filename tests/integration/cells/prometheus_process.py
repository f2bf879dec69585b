"""Debian's Prometheus, collecting from a test's processes by the files that are shipped.

A test may scale time: every duration of the rules is divided, so that what takes half an hour at a
site takes seconds here; weeks by more than hours, where one of them is too long even so. Nothing
else of the rules is changed.
"""

import json
import re
import shutil
import subprocess
import time
import urllib.parse
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pytest
import yaml
from tests.alert_files import RULES
from tests.integration.cells.gateway_process import eventually, fetch, free_port

PROMETHEUS = shutil.which("prometheus") or ""
PROMTOOL = shutil.which("promtool") or ""
needs_prometheus = pytest.mark.skipif(
    not (PROMETHEUS and PROMTOOL), reason="Debian's package prometheus is not installed"
)

_START_SECONDS = 30.0
_STOP_SECONDS = 20.0
_UNITS_MS = {"s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
# In an expression durations stand in brackets or after `offset`; a number elsewhere is none.
_WINDOW = re.compile(r"\[([^\]]+)\]|\boffset (\w+)")
_DURATION = re.compile(r"(\d+)([smhdw])")


class PrometheusProcess:
    """Targets are `job: port`; the rules' time runs `faster` times as fast, weeks by their own."""

    def __init__(
        self,
        folder: Path,
        targets: dict[str, int],
        *,
        faster: int = 1,
        weeks_faster: int | None = None,
        scrape_ms: int = 250,
    ) -> None:
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None
        self.port = 0
        (folder / RULES.name).write_text(scaled(RULES.read_text(), faster, weeks_faster))
        config = yaml.safe_load(RULES.with_name("prometheus.yml").read_text())
        often = f"{scrape_ms}ms"
        config["global"] = {"scrape_interval": often, "evaluation_interval": often}
        config["global"]["scrape_timeout"] = often
        for scraped in config["scrape_configs"]:
            port = targets[scraped["job_name"]]
            scraped["static_configs"] = [{"targets": [f"127.0.0.1:{port}"]}]
        (folder / "prometheus.yml").write_text(yaml.safe_dump(config))

    def query(self, expr: str) -> list[Any]:
        """The result of an instant query; a query that is not understood is an AssertionError."""
        answer = self._get(f"/api/v1/query?{urllib.parse.urlencode({'query': expr})}")
        assert answer["status"] == "success", answer
        result: list[Any] = answer["data"]["result"]
        return result

    def firing(self) -> dict[str, list[dict[str, Any]]]:
        """The alerts that fire now, by name."""
        found: dict[str, list[dict[str, Any]]] = {}
        for alert in self._get("/api/v1/alerts")["data"]["alerts"]:
            if alert["state"] == "firing":
                found.setdefault(alert["labels"]["alertname"], []).append(alert)
        return found

    def rule_troubles(self) -> list[str]:
        """The rules that Prometheus could not evaluate."""
        groups = self._get("/api/v1/rules")["data"]["groups"]
        rules = [rule for group in groups for rule in group["rules"]]
        assert rules, "no rule was read"
        return [rule["name"] for rule in rules if rule["health"] != "ok"]

    def wait_for(self, name: str, seconds: float) -> dict[str, Any]:
        """Wait until an alert fires, and return it."""
        deadline = time.monotonic() + seconds
        while name not in (firing := self.firing()):
            assert time.monotonic() < deadline, f"{name} does not fire; these do: {list(firing)}"
            time.sleep(0.1)
        return firing[name][0]

    def wait_for_end(self, name: str, seconds: float) -> None:
        eventually(lambda: name not in self.firing(), seconds)

    def _get(self, path: str) -> Any:
        _, text = fetch(self.port, path)
        return json.loads(text)

    def _is_ready(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, (self._folder / "prometheus.log").read_text()[-3000:]
        try:
            return fetch(self.port, "/-/ready")[0] == 200
        except OSError:
            return False

    def __enter__(self) -> Self:
        self.port = free_port()
        command = [
            PROMETHEUS,
            f"--config.file={self._folder / 'prometheus.yml'}",
            f"--storage.tsdb.path={self._folder / 'data'}",
            f"--web.listen-address=127.0.0.1:{self.port}",
        ]
        with (self._folder / "prometheus.log").open("wb") as log:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self._folder
            )
        try:
            eventually(self._is_ready, _START_SECONDS)
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop()

    def _stop(self) -> None:
        assert self._process is not None
        self._process.terminate()
        try:
            self._process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def scaled(text: str, faster: int, weeks_faster: int | None = None) -> str:
    """The same rules with every duration divided; thresholds and all else stay."""
    parsed = yaml.safe_load(text)
    for group in parsed["groups"]:
        for rule in group["rules"]:
            rule["expr"] = scaled_query(rule["expr"], faster, weeks_faster)
            if "for" in rule:
                rule["for"] = _shorter(rule["for"], faster)
    made: str = yaml.safe_dump(parsed)
    return made


def scaled_query(expr: str, faster: int, weeks_faster: int | None = None) -> str:
    return _WINDOW.sub(lambda found: _shorter(found[0], faster, weeks_faster), expr)


def _shorter(text: str, faster: int, weeks_faster: int | None = None) -> str:
    def divided(found: re.Match[str]) -> str:
        by = faster if weeks_faster is None or found[2] != "w" else weeks_faster
        return f"{max(1, int(found[1]) * _UNITS_MS[found[2]] // by)}ms"

    return _DURATION.sub(divided, text)
