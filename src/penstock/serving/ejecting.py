"""Ejects a failing replica from routing, and logs each ejection once."""

import logging

from penstock.records.replica import Replica
from penstock.routing import Router

logger = logging.getLogger(__name__)


def eject(router: Router, replica: Replica, reason: str, now: float) -> None:
    if router.ejections.eject(replica.id, now, reason):
        fields = {"action": "ejected", "replica": replica.id, "url": replica.url}
        logger.warning("replica ejected", extra={**fields, "reason": reason})
