"""Signs webhooks as Standard Webhooks specifies: secrets, signatures and headers."""

import base64
import hmac
import secrets
from collections.abc import Sequence
from typing import Final

PREFIX: Final = "whsec_"
_SECRET_BYTES: Final = 32


def new_secret() -> bytes:
    return secrets.token_bytes(_SECRET_BYTES)


def shown(secret: bytes) -> str:
    """Return the secret as its owner sees it and openai's and standardwebhooks' clients take it."""
    return PREFIX + base64.b64encode(secret).decode()


def hint(secret: bytes) -> str:
    """Return enough of a secret to tell two apart, and no more."""
    return f"{PREFIX}…{shown(secret)[-4:]}"


def signed_headers(
    webhook_id: str, body: bytes, secrets: Sequence[bytes], now: float
) -> list[tuple[str, str]]:
    """Return headers with one signature per secret: the receiver needs to know only one of them."""
    timestamp = str(int(now))
    signed = b".".join((webhook_id.encode(), timestamp.encode(), body))
    signatures = [base64.b64encode(hmac.digest(s, signed, "sha256")).decode() for s in secrets]
    return [
        ("webhook-id", webhook_id),
        ("webhook-timestamp", timestamp),
        ("webhook-signature", " ".join(f"v1,{each}" for each in signatures)),
    ]
