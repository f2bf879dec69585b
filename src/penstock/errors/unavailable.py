"""Errors of our side, of which nothing ran: trying again is safe."""

from penstock.errors.error import Error


class Unavailable(Error):
    """Not available now; nothing ran, and trying again is safe."""

    code = "unavailable"
    status = 503
    retryable = True


class OutOfCapacity(Unavailable):
    """Capacity temporarily exceeded, please try again."""

    code = "out_of_capacity"
    status = 429


class NoReplica(Unavailable):
    """The model has no replica that can serve now."""

    code = "no_replica"


class ReplicaUnreachable(Unavailable):
    """The replica did not take the request."""

    code = "replica_unreachable"


class Overloaded(Unavailable):
    """This gateway holds as many bytes or connections as it may."""

    code = "overloaded"


class JobExpired(Unavailable):
    """The job was not begun before its deadline."""

    code = "job_expired"
    status = 504


class SandboxUnavailable(Unavailable):
    """No sandbox host takes a container now."""

    code = "sandbox_unavailable"


class JournalFull(Unavailable):
    """This gateway cannot record usage now, so it begins nothing."""

    code = "journal_full"


class StoreUnavailable(Unavailable):
    """The database does not answer, so this key cannot be checked now."""

    code = "store_unavailable"


class ContentUnreadable(StoreUnavailable):
    """What was kept cannot be decrypted: its key is gone, or is another one."""

    code = "content_unreadable"
