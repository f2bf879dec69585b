"""Checks each file of deploy/ by the tool that reads it.

`CHECKS` has them by name; a check raises an AssertionError with what the tool said.
"""

import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from tests.acceptance.cli_run import free_port
from tests.acceptance.deploy_compose import filled_environment

ROOT = Path(__file__).parents[2]
# Out of 10, less is better; the units' first lines say the same.
EXPOSURE_MAX = {"gateway": 1.5, "control": 1.5, "keeper": 3.0}
# What a host has where the units are installed.
_WITH_PROGRAM = """
mount -t tmpfs tmpfs /opt
mkdir -p /opt/penstock/bin
ln -s /bin/true /opt/penstock/bin/penstock
exec "$@"
"""


def check_compose(path: Path) -> None:
    """docker-compose refuses unknown keys, wrong types and variables without a value."""
    with tempfile.NamedTemporaryFile("w", suffix=".env") as variables:
        variables.write(filled_environment())
        variables.flush()
        text = _output("docker-compose", "--env-file", variables.name, "-f", str(path), "config")
    for name in ("gateway-1", "gateway-2", "control", "keeper", "engine", "migrate"):
        assert f"\n  {name}:\n" in text, name


def check_environment(path: Path) -> None:
    """Its variables are all that compose.yaml asks for; without values it is refused."""
    compose = str(path.with_name("compose.yaml"))
    command = ["docker-compose", "--env-file", str(path), "-f", compose, "config", "--quiet"]
    refused = subprocess.run(command, capture_output=True, text=True, check=False)
    assert "write it into .env" in refused.stderr
    check_compose(path.with_name("compose.yaml"))


def check_settings(path: Path) -> None:
    """Penstock's own reader, which refuses unknown names and values out of bounds."""
    text = _output(sys.executable, "-m", "penstock", "--config", str(path), "config", "show")
    assert str(path) in text


def check_unit(path: Path) -> None:
    """Prints nothing if all is well; an unknown key is only a warning to systemd, and none here."""
    command = ["systemd-analyze", "verify", "--man=no", str(path)]
    assert _output("unshare", "--mount", "sh", "-c", _WITH_PROGRAM, "sh", *command) == ""


def check_service(path: Path) -> None:
    check_unit(path)
    most = EXPOSURE_MAX[path.stem.removeprefix("penstock-")]
    _output(
        "systemd-analyze", "security", "--no-pager", "--offline=true",
        f"--threshold={round(most * 10)}", str(path),
    )  # fmt: skip


def check_users(path: Path) -> None:
    with tempfile.TemporaryDirectory() as root:
        (Path(root) / "etc").mkdir()
        _output("systemd-sysusers", f"--root={root}", str(path))
        assert "penstock:x:" in (Path(root) / "etc" / "passwd").read_text()


def check_nginx(path: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="penstock-nginx-") as folder:
        site = NginxSite(Path(folder), path.read_text(), (free_port(), free_port()))
        _output(*site.command, "-t")


class NginxSite:
    """deploy/nginx/penstock.conf on free ports of loopback, with a certificate of its own."""

    def __init__(self, folder: Path, text: str, gateways: tuple[int, int]) -> None:
        self.port, self.plain_port = free_port(), free_port()
        self.certificate = folder / "inference.pem"
        self._make_certificate(folder)
        self.log = folder / "penstock.log"
        changes = {
            "10.0.0.5:8787": f"127.0.0.1:{gateways[0]}",
            "10.0.0.6:8787": f"127.0.0.1:{gateways[1]}",
            "listen 80;": f"listen 127.0.0.1:{self.plain_port};",
            "listen 443 ssl": f"listen 127.0.0.1:{self.port} ssl",
            "/etc/ssl/": f"{folder}/",
            "/var/log/nginx/": f"{folder}/",
        }
        for old, new in changes.items():
            assert old in text, old
            text = text.replace(old, new)
        (folder / "penstock.conf").write_text(text)
        places = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        temporary = "".join(f"{name}_temp_path {folder}/{name};" for name in places)
        (folder / "nginx.conf").write_text(
            f"daemon off; pid {folder}/pid; error_log {folder}/error.log;\n"
            f"events {{}}\nhttp {{ {temporary} include {folder}/penstock.conf; }}\n"
        )
        self.command = ("nginx", "-p", str(folder), "-c", str(folder / "nginx.conf"))

    def _make_certificate(self, folder: Path) -> None:
        names = "subjectAltName=IP:127.0.0.1"
        subject = ("-subj", "/CN=inference.example.com", "-addext", names, "-days", "2")
        files = ("-keyout", str(folder / "inference.key"), "-out", str(self.certificate))
        key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
        _output("openssl", "req", "-x509", *key, *subject, *files)


Check = Callable[[Path], None]
CHECKS: dict[str, Check] = {
    "deploy/compose/compose.yaml": check_compose,
    "deploy/compose/.env.example": check_environment,
    "deploy/compose/penstock.toml": check_settings,
    "deploy/systemd/penstock-gateway.service": check_service,
    "deploy/systemd/penstock-control.service": check_service,
    "deploy/systemd/penstock-keeper.service": check_service,
    "deploy/systemd/penstock-sandbox.service": check_unit,
    "deploy/systemd/penstock.target": check_unit,
    "deploy/systemd/penstock.sysusers": check_users,
    "deploy/nginx/penstock.conf": check_nginx,
}


def verified_files() -> list[str]:
    """Check all of them; return their names."""
    for name, check in CHECKS.items():
        check(ROOT / name)
    return list(CHECKS)


def _output(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(command)}: {done.stdout}{done.stderr}"
    return done.stdout + (done.stderr if command[0] == "unshare" else "")
