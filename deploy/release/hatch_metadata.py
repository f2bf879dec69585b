"""Gives the package its addresses, and a README that can be read outside of the repository.

The repository's address is known to whoever publishes: PENSTOCK_PROJECT_URL, such as
https://git.example/penstock. Relative links lead there, to the version's tag; without an address
they become plain text, because on a package index they would lead nowhere.
"""

import os
import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

_COMMENT = re.compile(r"<!--.*?-->\n?", re.DOTALL)
_PICTURE = re.compile(r"!\[[^\]]*\]\((?!https?://)[^)]*\)\n?")
_LINK = re.compile(r"\[(?P<text>[^\]]+)\]\((?!https?://|#)(?P<path>[^)]+)\)")


class ReadmeHook(MetadataHookInterface):
    """Called by hatchling."""

    def update(self, metadata: dict[str, Any]) -> None:
        address = os.environ.get("PENSTOCK_PROJECT_URL", "").rstrip("/")  # noqa: TID251 - a setting of the build alone
        text = (Path(self.root) / "README.md").read_text()
        metadata["readme"] = {
            "content-type": "text/markdown",
            "text": portable(text, address, metadata["version"]),
        }
        metadata["urls"] = urls(address, metadata["version"])


def portable(readme: str, address: str, version: str) -> str:
    """Return the README with links that lead somewhere from anywhere."""
    text = _PICTURE.sub("", _COMMENT.sub("", readme))
    tree = _tree(address, version)
    return _LINK.sub(rf"[\g<text>]({tree}/\g<path>)" if address else r"\g<text>", text)


def urls(address: str, version: str) -> dict[str, str]:
    if not address:
        return {}
    tree = _tree(address, version)
    return {
        "Source": address,
        "Documentation": f"{tree}/docs/index.md",
        "Changelog": f"{tree}/CHANGELOG.md",
    }


def _tree(address: str, version: str) -> str:
    """Return where the repository shows the files of a version."""
    return f"{address}/blob/v{version}"
