"""The settings of `[ingress]` that reading a request needs."""

import msgspec


class IntakeSettings(msgspec.Struct, frozen=True):
    """The operator sets them under `[ingress]`; their defaults are there."""

    media_hosts: tuple[str, ...]
    prompt_bytes_per_token: float
    flex: bool
