"""Standard Webhooks: what is signed, by which secret, and the headers that say so."""

import base64
import hmac
import secrets
from collections.abc import Sequence
from typing import Final

_PREFIX: Final = "whsec_"
_SECRET_BYTES: Final = 32


def new_secret() -> bytes:
    return secrets.token_bytes(_SECRET_BYTES)


def shown(secret: bytes) -> str:
    """The secret as its owner keeps it, and as openai's and standardwebhooks' clients take it."""
    return _PREFIX + base64.b64encode(secret).decode()


def hint(secret: bytes) -> str:
    """Enough to tell two secrets apart, and no more."""
    return f"{_PREFIX}…{shown(secret)[-4:]}"


def signed_headers(
    webhook_id: str, body: bytes, secrets: Sequence[bytes], now: float
) -> list[tuple[str, str]]:
    """One signature per secret: any that the receiver knows will do while it changes over."""
    timestamp = str(int(now))
    signed = b".".join((webhook_id.encode(), timestamp.encode(), body))
    signatures = [base64.b64encode(hmac.digest(s, signed, "sha256")).decode() for s in secrets]
    return [
        ("webhook-id", webhook_id),
        ("webhook-timestamp", timestamp),
        ("webhook-signature", " ".join(f"v1,{each}" for each in signatures)),
    ]
