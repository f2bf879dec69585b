"""Errors of containers and sandbox hosts; `penstock.errors` draws where they stand in the tree."""

from penstock.errors import Conflict, Interrupted, NotFound, Unavailable


class ContainerExpired(NotFound):
    """The container has ended: it was idle, too old, or its host was started anew."""

    code = "container_expired"


class ContainerBusy(Conflict):
    """Other code runs in this container: try again when it has ended."""

    code = "container_busy"
    retryable = True


class SandboxUnavailable(Unavailable):
    """No sandbox host takes a container now."""

    code = "sandbox_unavailable"


class SandboxLost(Interrupted):
    """The sandbox host went away, so it is not known how far the code ran."""

    code = "sandbox_lost"
