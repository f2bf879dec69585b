"""A fleet of vLLM-like replicas behind gateways, in simulated time and from a seed.

It runs the very code of `routing`, and beside it the peers' rules with what they would know. It
leaves out networks, tokenizing and attention that grows with context; nothing here ran on a GPU.
"""
