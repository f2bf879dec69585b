"""Endpoints other than inference, served by Starlette."""
