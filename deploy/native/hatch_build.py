"""Puts the compiled modules into the wheel, where a build asks for that (`make wheel`).

The sources stay in it beside them: Python prefers what is compiled, and a traceback shows the line.
"""

import sys
from pathlib import Path
from typing import Any

from hatchling.builders.config import BuilderConfig
from hatchling.builders.hooks.plugin.interface import BuildHookInterface

sys.path.insert(0, str(Path(__file__).parents[2]))

from deploy.native.build import build, default_cache, libraries


class NativeHook(BuildHookInterface[BuilderConfig]):
    """Called by hatchling."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable":
            return
        folder = build(Path(self.root), default_cache())
        build_data["pure_python"] = False
        build_data["infer_tag"] = True
        build_data["force_include"] |= {
            str(path): str(path.relative_to(folder)) for path in libraries(folder)
        }
