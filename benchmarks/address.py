"""Addresses of servers: host:port, or unix:///path."""

from __future__ import annotations


def location(address: str) -> str:
    """The address as a Flight location."""
    return ("grpc+" if address.startswith("unix:") else "grpc://") + address


def bound(listen: str, port: int) -> str:
    """The address of a server that listens at `listen`; for TCP with its port."""
    return listen if listen.startswith("unix:") else f"127.0.0.1:{port}"
