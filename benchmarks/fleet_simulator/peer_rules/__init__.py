"""How other gateways choose a replica, written down to be compared with in the simulator.

Each follows its project's published rule and defaults; none is used to serve anything.
"""

from fleet_simulator.peer_rules.rules import PEERS, build_rule

__all__ = ["PEERS", "build_rule"]
