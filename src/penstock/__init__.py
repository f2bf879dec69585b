"""Penstock: serverless inference for agents, on your own GPUs.

Open `serving/request_path.py` first: it is the path of one request.
"""
