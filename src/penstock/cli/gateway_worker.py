"""Makes each gateway worker's application for uvicorn. Imports only what a worker needs."""

import multiprocessing

from penstock.app.gateway_worker import gateway
from penstock.cli.parent_watch import end_with_parent


def worker() -> object:
    """Return the gateway's application, and end this process when the gateway's own ends.

    A worker whose parent was killed would hold the port for ever, and no new gateway could start.
    """
    parent = multiprocessing.parent_process()
    if parent is not None and parent.pid is not None:
        end_with_parent(parent.pid)
    return gateway()
