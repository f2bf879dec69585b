"""Replicas as pods of a Kubernetes cluster: a pod for each replica id, or for each of its parts.

The cluster places pods and owns their processes; the keeper of a pool starts them, asks engines for
their health and lists them. `cluster.py` is the only file that speaks to the API server.
"""
