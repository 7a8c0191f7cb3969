"""Finds an address that accepts connections, without waiting long for one that does not."""

from __future__ import annotations

import contextlib
import ipaddress
import selectors
import socket
import time
from collections.abc import Sequence

from penstock.addresses import Address, proxy_of
from penstock.rests import rests

# Seconds after which the next address is tried, too (RFC 8305), and seconds for all of them.
_NEXT_AFTER = 0.25
_LIMIT = 5.0


def first_to_accept(addresses: Sequence[Address]) -> Address | None:
    """Returns the address that accepts a connection first; None if none does within 5 seconds.

    Connections are tried in order, each one 250 ms after the one before, or at once when that one has failed. They are
    closed again without a byte. An address that refuses begins to rest. An address that is not known as an IP address counts
    as accepting: gRPC finds it.
    """
    if any(not address.ip and proxy_of(address.location) for address in addresses):
        return addresses[0]
    with contextlib.closing(selectors.DefaultSelector()) as selector:
        try:
            return _race(addresses, selector)
        finally:
            for key in list(selector.get_map().values()):
                key.fileobj.close()  # type: ignore[union-attr]  # a socket


def _race(addresses: Sequence[Address], selector: selectors.BaseSelector) -> Address | None:
    left = list(addresses)
    deadline = time.monotonic() + _LIMIT
    while (wait := deadline - time.monotonic()) > 0:
        if left:
            address, wait = left.pop(0), min(wait, _NEXT_AFTER)
            found = _ip_and_port(address)
            if found is None:
                return address
            _connect(address, found, selector)
        elif not selector.get_map():
            return None
        accepted = [key.data for key, _ in selector.select(wait) if _accepts(key, selector)]
        if accepted:
            return min(accepted, key=addresses.index)
    return None


def _connect(address: Address, to: tuple[str, int], selector: selectors.BaseSelector) -> None:
    """Begins a connection."""
    family = socket.AF_INET6 if ":" in to[0] else socket.AF_INET
    try:
        connection = socket.socket(family, socket.SOCK_STREAM)
    except OSError:  # the system has no such family
        return
    connection.setblocking(False)
    connection.connect_ex(to)  # a failure is reported by the selector, too
    selector.register(connection, selectors.EVENT_WRITE, address)


def _accepts(key: selectors.SelectorKey, selector: selectors.BaseSelector) -> bool:
    """Reports whether a connection that has ended its attempt is open, and closes it."""
    connection = key.fileobj
    assert isinstance(connection, socket.socket)
    selector.unregister(connection)
    with connection:
        failed = connection.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) != 0
    if failed:
        rests.failed(key.data)
    return not failed


def _ip_and_port(address: Address) -> tuple[str, int] | None:
    host, _, port = address.target.partition("://")[2].rpartition(":")
    host = host.strip("[]")
    try:
        ipaddress.ip_address(host)
        return host, int(port)
    except ValueError:
        return None
