"""Whom the embedded Postgres runs as: ourselves, or a user of its own when we are root.

Postgres refuses to run as root. Nothing here is needed for a Postgres that runs elsewhere.
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
    """What `subprocess.Popen` takes to start a process as somebody else."""

    user: int
    group: int
    extra_groups: list[int]


class SystemUser(msgspec.Struct, frozen=True):
    """A user of this machine; `is_other` when it is not the one we are."""

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
    """Ourselves; as root the owner of the data, or for new data a user made for Postgres."""
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
    """Let another user reach `path`: search, not list, those folders above it that are shut.

    A folder under /root, or a temporary one, is shut to everybody else, and so is a virtual
    environment in it.
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
