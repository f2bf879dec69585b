"""What tests of the way to the engine share: lines to engines that leave nothing behind."""

import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.unit.engine.engine_line import Lines


@pytest.fixture
async def lines() -> AsyncIterator[Lines]:
    """Opens lines, and checks at the end that nothing of them is left."""
    opener = Lines()
    yield opener
    await opener.close()


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A certificate for 127.0.0.1 that signs itself, and its key."""
    folder = tmp_path_factory.mktemp("tls")
    certificate, key = folder / "cert.pem", folder / "key.pem"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"),
            *("-nodes", "-days", "2", "-subj", "/CN=127.0.0.1"),
            *("-addext", "subjectAltName=IP:127.0.0.1"),
            *("-out", str(certificate), "-keyout", str(key)),
        ],
        check=True,
        capture_output=True,
    )
    return certificate, key
