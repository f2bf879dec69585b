"""Sends requests to addresses that accounts choose, such as webhooks, never into our networks.

Promises: a connection goes only to an address that the guard permits, and to that address itself;
no redirect is followed; every send has an end.
"""

from penstock.outbound.addresses import Guard
from penstock.outbound.answer import CallFailed, HttpReply
from penstock.outbound.caller import Caller, CallLimits, OutboundCall
from penstock.outbound.sender import Sender, Sent
from penstock.outbound.target import check_target

__all__ = [
    "CallFailed",
    "CallLimits",
    "Caller",
    "Guard",
    "HttpReply",
    "OutboundCall",
    "Sender",
    "Sent",
    "check_target",
]
