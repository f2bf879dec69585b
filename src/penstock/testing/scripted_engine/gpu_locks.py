"""Holds the GPUs that are visible to an engine, so that two engines on one GPU are found out."""

import fcntl
import os
import sys
from pathlib import Path


def hold_gpus(folder: Path, visible: str) -> None:
    """Lock a file for each GPU until this process ends; exit if another process has one of them.

    The folder is one host's. A GPU that was taken twice leaves a file `double-GPU` there.
    """
    folder.mkdir(parents=True, exist_ok=True)
    if not visible:
        sys.exit("CUDA_VISIBLE_DEVICES is not set: this engine would take every GPU.")
    for gpu in visible.split(","):
        # Kept open on purpose: the lock lasts as long as the descriptor.
        descriptor = os.open(folder / f"gpu-{gpu}", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            (folder / f"double-{gpu}").touch()
            sys.exit(f"GPU {gpu} is held by another engine.")
