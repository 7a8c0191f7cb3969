"""Where servers listen: host:port, or unix:///path."""

from __future__ import annotations


def location(address: str) -> str:
    """The address as a Flight location."""
    return ("grpc+" if address.startswith("unix:") else "grpc://") + address


def bound(listen: str, port: int) -> str:
    """The address of a server that was to listen at `listen`, and has a port if that is TCP."""
    return listen if listen.startswith("unix:") else f"127.0.0.1:{port}"
