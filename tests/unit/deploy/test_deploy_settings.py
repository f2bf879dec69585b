"""What the files of deploy/ say twice agrees with the settings' defaults and with the catalogue."""

import configparser
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from penstock.catalogue import CatalogueSettings, load_catalogue
from penstock.config import Config, load
from penstock.ingress.pages.file_pages import FORM_BYTES_MAX

ROOT = Path(__file__).parents[3]
DEPLOY = ROOT / "deploy"
DEFAULTS = Config()
NGINX = (DEPLOY / "nginx" / "penstock.conf").read_text()


def services() -> dict[str, Any]:
    text = (DEPLOY / "compose" / "compose.yaml").read_bytes()
    found: dict[str, Any] = msgspec.yaml.decode(text)["services"]
    return found


def unit(name: str) -> configparser.SectionProxy:
    parser = configparser.ConfigParser(strict=False, interpolation=None)
    parser.optionxform = str  # type: ignore[method-assign,assignment]
    parser.read(DEPLOY / "systemd" / f"penstock-{name}.service")
    return parser["Service"]


def stop_seconds(name: str) -> float:
    """How long compose and systemd both wait before they kill it."""
    written = services()["gateway-1" if name == "gateway" else name]["stop_grace_period"]
    return min(float(written.removesuffix("s")), float(unit(name)["TimeoutStopSec"]))


def test_gateway_has_time_to_drain() -> None:
    needed = DEFAULTS.ingress.drain_seconds + DEFAULTS.metering.last_drain_seconds
    assert stop_seconds("gateway") > needed


def test_keeper_has_time_for_its_jobs() -> None:
    needed = DEFAULTS.puller.drain_seconds + DEFAULTS.puller.last_write_seconds
    assert stop_seconds("keeper") > needed


def test_gateway_may_open_a_file_for_each_end_of_each_stream() -> None:
    most = 2 * DEFAULTS.ingress.connections_max
    assert int(unit("gateway")["LimitNOFILE"]) > most
    assert services()["gateway-1"]["ulimits"]["nofile"] > most


def test_sandbox_host_gets_no_secrets_of_the_cell() -> None:
    assert unit("sandbox")["ExecStart"] == "/opt/penstock/bin/penstock sandbox"
    assert "EnvironmentFile" not in unit("sandbox")
    assert "User" not in unit("sandbox")


@pytest.mark.parametrize("name", ["gateway", "control", "keeper"])
def test_unit_starts_its_command_as_its_user(name: str) -> None:
    assert unit(name)["ExecStart"] == f"/opt/penstock/bin/penstock {name}"
    assert unit(name)["User"] == "penstock"
    assert unit(name)["Restart"] == "always"


def test_only_the_keeper_leaves_its_children_running() -> None:
    modes = {name: unit(name).get("KillMode") for name in ("gateway", "control", "keeper")}
    assert modes == {"gateway": "mixed", "control": None, "keeper": "process"}


def test_no_image_name_has_a_host() -> None:
    names = [service["image"] for service in services().values()]
    names += re.findall(r"^ARG BASE=(\S+)", (DEPLOY / "container/Dockerfile").read_text(), re.M)
    for name in names:
        plain = re.sub(r"\$\{\w+:-(.+)\}", r"\1", re.sub(r"\$\{\w+:\?.*\}", "1", name))
        first, slash, _ = plain.partition("/")
        assert not slash or not re.search(r"[.:]|^localhost$", first), name


def test_compose_s_engine_has_the_arguments_of_the_recipe() -> None:
    entry = load_catalogue(CatalogueSettings()).find("gpt-oss-20b")
    words = _joined(entry.recipe.command[2:])
    given = services()["engine"]
    places = ("--host", "--port", "--tensor-parallel-size")
    assert [word for word in words if not word.startswith(places)] == [
        word for word in given["command"] if not word.startswith(places)
    ]
    # Its key is the operator's own there, if it has one: nobody fills a placeholder.
    environment = {k: v for k, v in entry.recipe.environment.items() if "{" not in v}
    assert environment.items() <= given["environment"].items()


def _joined(words: tuple[str, ...] | list[str]) -> list[str]:
    """Return `--name value` as `--name=value`."""
    found: list[str] = []
    for word in words:
        if found and found[-1].startswith("--") and "=" not in found[-1] and word[:2] != "--":
            found[-1] += f"={word}"
        else:
            found.append(word)
    return found


def test_settings_of_compose_name_its_services() -> None:
    config = load(DEPLOY / "compose" / "penstock.toml", {}).config
    hosts = {config.signals.nats_url, config.store.objects_endpoint, config.fleet.replicas[0].url}
    names = {re.sub(r"\w+://(.+):\d+", r"\1", host) for host in hosts}
    assert names == {"nats", "objects", "engine"}
    assert names <= set(services())
    assert config.fleet.replicas[0].provider == "attach"
    assert not config.store.dsn


def test_nginx_lets_pass_what_gateways_take() -> None:
    sizes = [int(size) * 2**20 for size in re.findall(r"client_max_body_size (\d+)m;", NGINX)]
    assert sizes[0] == DEFAULTS.ingress.body_bytes_max
    assert sizes[1] >= DEFAULTS.ingress.file_bytes_max + FORM_BYTES_MAX


def test_nginx_is_as_patient_as_gateways() -> None:
    (seconds,) = re.findall(r"proxy_read_timeout (\d+)s;", NGINX)
    assert int(seconds) >= DEFAULTS.engine.total_seconds
    # nginx's own default for idle connections to an upstream is 60 s.
    assert DEFAULTS.ingress.keep_alive_seconds > 60
