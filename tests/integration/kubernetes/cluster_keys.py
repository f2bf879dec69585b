"""Keys, certificates and kubeconfigs of a cluster that tests start."""

import base64
import ipaddress
import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from penstock.clock import SystemClock

_AUTHORITY = "test-authority"
# At which pods find the API server.
SERVICE_ADDRESS = "10.96.0.1"


def make_keys(folder: Path, address: str) -> None:
    """Write an authority, the API server's certificate and the key of service accounts."""
    folder.mkdir(mode=0o700)
    authority = _new_key(folder / "ca.key")
    server = _new_key(folder / "apiserver.key")
    _new_key(folder / "accounts.key")
    issuer = _name(_AUTHORITY)
    ca = _certificate(issuer, issuer, authority.public_key()).add_extension(
        x509.BasicConstraints(ca=True, path_length=None), critical=True
    )
    _write(folder / "ca.crt", ca, authority)
    names = [x509.IPAddress(ipaddress.ip_address(each)) for each in (address, SERVICE_ADDRESS)]
    own = _certificate(_name("kube-apiserver"), issuer, server.public_key()).add_extension(
        x509.SubjectAlternativeName(names), critical=False
    )
    _write(folder / "apiserver.crt", own, authority)


def make_client(folder: Path, name: str, user: str, group: str) -> None:
    """Write `name`.crt and `name`.key, by which a client is that user of that group."""
    authority = load_pem_private_key((folder / "ca.key").read_bytes(), None)
    assert isinstance(authority, rsa.RSAPrivateKey)
    key = _new_key(folder / f"{name}.key")
    subject = x509.Name(
        [
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, group),
            x509.NameAttribute(NameOID.COMMON_NAME, user),
        ]
    )
    usage = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH])
    own = _certificate(subject, _name(_AUTHORITY), key.public_key())
    _write(folder / f"{name}.crt", own.add_extension(usage, critical=False), authority)


def write_kubeconfig(path: Path, server: str, authority: Path, login: Mapping[str, str]) -> None:
    """`login` has a token, or the files of a client's certificate and key. JSON is YAML too."""
    cluster = {
        "server": server,
        "certificate-authority-data": base64.b64encode(authority.read_bytes()).decode(),
    }
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "test",
        "clusters": [{"name": "test", "cluster": cluster}],
        "users": [{"name": "user", "user": dict(login)}],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "user"}}],
    }
    path.touch(mode=0o600)
    path.write_text(json.dumps(config))


def _new_key(path: Path) -> rsa.RSAPrivateKey:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    path.touch(mode=0o600)
    path.write_bytes(
        key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption())
    )
    return key


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _certificate(
    subject: x509.Name, issuer: x509.Name, key: rsa.RSAPublicKey
) -> x509.CertificateBuilder:
    now = datetime.fromtimestamp(SystemClock().now(), UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(minutes=5))
        .not_valid_after(now + timedelta(days=3650))
    )


def _write(path: Path, builder: x509.CertificateBuilder, key: rsa.RSAPrivateKey) -> None:
    path.write_bytes(builder.sign(key, hashes.SHA256()).public_bytes(Encoding.PEM))
