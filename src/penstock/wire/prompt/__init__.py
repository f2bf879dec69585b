"""Prompts: how chats are read, chained and remembered. Other rooms go through reader.py."""
