"""Chooses the user the embedded Postgres runs as: the current one, or another if that is root.

Postgres refuses to run as root. An external Postgres needs nothing of this.
"""

import logging
import os
import pwd
import stat
import subprocess
from pathlib import Path
from typing import TypedDict

import msgspec

from penstock import errors

logger = logging.getLogger(__name__)

_NAMES = ("postgres", "pgserver")


class SpawnArguments(TypedDict, total=False):
    """Arguments of `subprocess.Popen` that start a process as another user."""

    user: int
    group: int
    extra_groups: list[int]


class SystemUser(msgspec.Struct, frozen=True):
    """A user of this machine; `is_other` when it is not this process's user."""

    uid: int
    gid: int
    is_other: bool

    def own(self, path: Path) -> None:
        if self.is_other:
            os.chown(path, self.uid, self.gid)

    def spawn_arguments(self) -> SpawnArguments:
        if not self.is_other:
            return {}
        return {"user": self.uid, "group": self.gid, "extra_groups": []}


def system_user_for(data: Path) -> SystemUser:
    """Return the current user; as root, the data's owner, or a Postgres user for new data."""
    if os.geteuid() != 0:
        return SystemUser(os.geteuid(), os.getegid(), is_other=False)
    if data.exists():
        owner = data.stat()
        return SystemUser(owner.st_uid, owner.st_gid, is_other=True)
    for name in _NAMES:
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        return SystemUser(entry.pw_uid, entry.pw_gid, is_other=True)
    return _create(_NAMES[-1])


def let_in(user: SystemUser, path: Path) -> None:
    """Let another user reach `path`: make closed parent folders searchable, but not listable.

    Other users cannot enter /root or a private temporary folder, nor a virtual environment in it.
    """
    if not user.is_other:
        return
    for parent in path.resolve().parents:
        found = parent.stat()
        if found.st_uid != user.uid and not found.st_mode & stat.S_IXOTH:
            parent.chmod(found.st_mode | stat.S_IXOTH)
            logger.warning(
                "folder opened for search",
                extra={"action": "folder_opened_for_search", "folder": str(parent)},
            )


def _create(name: str) -> SystemUser:
    command = ["useradd", "--system", "--no-create-home", "--shell", "/usr/sbin/nologin", name]
    try:
        subprocess.run(command, check=True, capture_output=True)  # noqa: S603 - a fixed command
    except (OSError, subprocess.CalledProcessError) as error:
        raise errors.StoreUnavailable(
            f"Postgres cannot run as root, and the user {name} could not be made ({error})."
            " Run Penstock as another user, or name a Postgres in store.dsn."
        ) from error
    entry = pwd.getpwnam(name)
    return SystemUser(entry.pw_uid, entry.pw_gid, is_other=True)
