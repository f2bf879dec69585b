"""The composition root: the only room that builds the others and joins them.

One file for each process: a gateway worker, a keeper, control.
"""

from penstock.app.control import Control
from penstock.app.gateway_worker import GatewayWorker, gateway
from penstock.app.keeper_parts import announcing, keeper, station

__all__ = ["Control", "GatewayWorker", "announcing", "gateway", "keeper", "station"]
