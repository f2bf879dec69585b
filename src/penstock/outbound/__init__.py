"""Sends requests to addresses that accounts choose, such as webhooks, without opening our networks.

Promises: a connection goes only to an address that the guard permits, and to that address itself;
no redirect is followed; every send has an end.
"""

from penstock.outbound.addresses import Guard
from penstock.outbound.sender import Sender, Sent
from penstock.outbound.target import check_target

__all__ = ["Guard", "Sender", "Sent", "check_target"]
