"""The settings of `[ingress]` that reading a request needs."""

import msgspec


class IntakeSettings(msgspec.Struct, frozen=True):
    """Settings for reading requests. Operators set them under `[ingress]`, with its defaults."""

    media_hosts: tuple[str, ...]
    prompt_bytes_per_token: float
    flex: bool
    # Whether tools such as the code interpreter run on this gateway.
    server_tools: bool = False
