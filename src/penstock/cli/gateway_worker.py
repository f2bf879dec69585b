"""What uvicorn calls in each gateway worker. Imports no more than a worker needs."""

import multiprocessing

from penstock.app.gateway_worker import gateway
from penstock.cli.parent_watch import end_with_parent


def worker() -> object:
    """The gateway's application, in a process that does not outlive the gateway's own.

    A worker whose parent was killed would hold the port for ever, and no new gateway could start.
    """
    parent = multiprocessing.parent_process()
    if parent is not None and parent.pid is not None:
        end_with_parent(parent.pid)
    return gateway()
