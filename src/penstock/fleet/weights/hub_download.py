"""The process that asks Hugging Face.

Its arguments: `PARENT list REPOSITORY REVISION MAX`, or `PARENT download REPOSITORY REVISION
FOLDER`. PARENT is the id of the process that started it.
"""

import json
import os
import sys
import threading
import time
from typing import Final

from huggingface_hub import HfApi, snapshot_download
from huggingface_hub.utils.tqdm import disable_progress_bars

_LOOK_SECONDS: Final = 0.5


def main(arguments: list[str]) -> int:
    """Do one thing; the last line of standard error says what went wrong."""
    parent, verb, repository, revision, last = arguments
    # The parent may have ended while the library was imported, so its id comes from itself.
    threading.Thread(target=_end_with, args=(int(parent),), daemon=True).start()
    disable_progress_bars()
    try:
        if verb == "list":
            sys.stdout.write(_listed(repository, revision or None, int(last)))
        else:
            snapshot_download(repository, revision=revision or None, local_dir=last)
    except Exception as failure:  # noqa: BLE001 - the top of the process, which reports any failure
        lines = str(failure).strip().splitlines() or [""]
        sys.stderr.write(f"{type(failure).__name__}: {lines[0]}\n")
        return 1
    return 0


def _end_with(parent: int) -> None:
    """End this process when its keeper was killed: nobody waits for the files any more."""
    while os.getppid() == parent:
        time.sleep(_LOOK_SECONDS)
    os._exit(1)


def _listed(repository: str, revision: str | None, files_max: int) -> str:
    facts = HfApi().model_info(repository, revision=revision, files_metadata=True)
    files = [(each.rfilename, each.size or 0) for each in (facts.siblings or [])[: files_max + 1]]
    return json.dumps({"commit": facts.sha, "files": files})


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
