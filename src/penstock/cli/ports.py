"""Finds free ports, and refuses taken ones."""

import socket

from penstock.cli.exit_codes import CommandFailed, ExitCode


def is_free(host: str, port: int) -> bool:
    """Return whether a server could listen there now."""
    with _socket(host) as probe:
        try:
            probe.bind((host, port))
            # Binding alone succeeds beside a listener that has the same option set.
            probe.listen(1)
        except OSError:
            return False
    return True


def free_port(host: str) -> int:
    """Return any port that is free now."""
    with _socket(host) as probe:
        probe.bind((host, 0))
        return int(probe.getsockname()[1])


def check_ports(host: str, ports: dict[str, int]) -> None:
    """Refuse a taken port, naming its option."""
    for option, port in ports.items():
        if port and not is_free(host, port):
            raise CommandFailed(
                f"Port {port} on {host} is in use by another process. Stop that one, or pass"
                f" another port with {option}.",
                ExitCode.TAKEN,
            )


def _socket(host: str) -> socket.socket:
    made = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    # As servers do, so that a port with connections in TIME_WAIT counts as free.
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    return made
