"""The addresses of servers: the locations that a user wrote, and the IP addresses of their names."""

from __future__ import annotations

import functools
import hashlib
import ipaddress
import os
import socket
import threading
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass

# Seconds after which a name is resolved again, and after a failure of one of its addresses.
_FRESH = 30.0
_FRESH_AFTER_FAILURE = 1.0

# The most pairs of shard and server for which shards are dealt. More take seconds, and hashing alone spreads so many well.
_MOST_PAIRS = 200_000

# The variables with gRPC's proxy, and those with the ends of the hosts that are reached without it. A proxy resolves names itself.
_PROXIES = ("grpc_proxy", "https_proxy", "http_proxy")
_NO_PROXIES = ("no_grpc_proxy", "no_proxy")


@dataclass(frozen=True)
class Address:
    """One server.

    Attributes:
        location: the Flight location that the user wrote.
        ip: the server's IP address, if the name in the location has several; "" otherwise.
    """

    location: str
    ip: str = ""

    def __str__(self) -> str:
        return f"{self.location} ({self.ip})" if self.ip else self.location

    @property
    def target(self) -> str:
        """The Flight location to connect to."""
        if not self.ip:
            return self.location
        scheme, _, rest = self.location.partition("://")
        host = f"[{self.ip}]" if ":" in self.ip else self.ip
        return f"{scheme}://{host}:{rest.rpartition(':')[2]}"

    @property
    def authority(self) -> str:
        """The host and port that the user wrote. The host is the name in the server's certificate."""
        return self.location.partition("://")[2]


@dataclass(frozen=True)
class Portion:
    """The key of a shard of a dataset, or of its splits that join the same staging files.

    Attributes:
        dataset: the key of the dataset.
        index: the number of the portion.
        count: how many portions the dataset is read in.
    """

    dataset: str
    index: int
    count: int

    def __str__(self) -> str:
        return f"{self.dataset} {self.index}/{self.count}"


Key = str | Portion
"""What is asked for. Equal keys have the same order of servers in all processes."""


def ranked(key: Key, addresses: Iterable[Address]) -> list[Address]:
    """Orders the servers for a key by rendezvous hashing.

    The order is the same in every process. If one server comes or goes, few keys get another first one, and they spread
    over all servers. Portions of one dataset also spread evenly: no server is the first one of more than its part of them.
    """
    order = sorted(addresses, key=lambda address: (_score(str(key), address), str(address)), reverse=True)
    # The numbers of a portion come from a server.
    if isinstance(key, Portion) and 0 <= key.index < key.count and 1 < key.count * len(order) <= _MOST_PAIRS:
        home = _dealt(key.dataset, key.count, frozenset(order))[key.index]
        order.sort(key=lambda address: address != home)
    return order


@functools.lru_cache(maxsize=64)
def _dealt(dataset: str, count: int, addresses: frozenset[Address]) -> list[Address]:
    """Returns the first server of each portion.

    Hashing alone gives the fullest of 8 servers two or three of 8 portions. So the pairs of portion and server are taken from
    the highest hash down, if the portion has no server yet, and the server has less than its part.
    """
    pairs = (
        (_score(str(Portion(dataset, index, count)), address), str(address), index, address)
        for index in range(count)
        for address in addresses
    )
    room = dict.fromkeys(addresses, -(-count // len(addresses)))
    homes: dict[int, Address] = {}
    for _, _, index, address in sorted(pairs, key=lambda pair: pair[:3], reverse=True):
        if index not in homes and room[address]:
            homes[index] = address
            room[address] -= 1
    return [homes[index] for index in range(count)]


def _score(key: str, address: Address) -> bytes:
    text = f"{address.location}\0{address.ip}\0{key}"
    return hashlib.blake2b(text.encode(), digest_size=8).digest()


class _Names:
    """The IP addresses of names, for all clients of the process.

    The garbage collector never calls this class, so its lock may be a plain one. A forked child begins without names.
    """

    def __init__(self) -> None:
        self.after_in_child()

    def after_in_child(self) -> None:
        self._lock = threading.Lock()
        self._found: dict[str, tuple[str, ...]] = {}
        self._due: dict[str, float] = {}  # when to resolve again, by the monotonic clock
        self._resolving: set[str] = set()

    def of(self, location: str) -> tuple[str, ...]:
        """Returns the IP addresses of a location's name, sorted; none if it has one server or is not resolved here.

        The addresses that are known remain if the name cannot be resolved, or resolves to nothing.
        """
        if not _has_name(location):
            return ()
        now = time.monotonic()
        with self._lock:
            known = self._found.get(location, ())
            if now < self._due.get(location, 0.0) or location in self._resolving:
                return known
            self._due[location] = now + _FRESH
            self._resolving.add(location)  # other threads use the known addresses meanwhile
        try:
            found = _resolved(location)
        finally:
            self._resolving.discard(location)
        if found is None:
            return known
        with self._lock:
            self._found[location] = found
        return found

    def known(self, location: str) -> tuple[str, ...]:
        """Returns the addresses that are known, and has a thread resolve the name if it is due. Never waits."""
        is_due = time.monotonic() >= self._due.get(location, 0.0) and location not in self._resolving
        if _has_name(location) and is_due:
            with suppress(RuntimeError):  # the interpreter ends, or the system has no more threads
                threading.Thread(target=self.of, args=(location,), name="penstock-names", daemon=True).start()
        return self._found.get(location, ())

    def doubt(self, location: str) -> None:
        """Resolves a name again soon, because one of its addresses has failed."""
        due = self._due.get(location)
        if due is not None:
            self._due[location] = min(due, time.monotonic() + _FRESH_AFTER_FAILURE)


def _has_name(location: str) -> bool:
    scheme, _, rest = location.partition("://")
    host = rest.rpartition(":")[0].strip("[]")
    if scheme == "grpc+unix" or not host or proxy_of(location):
        return False
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return True
    return False


def proxy_of(location: str) -> str:
    """Returns the variable with the proxy through which gRPC connects to a location; "" if it connects directly."""
    scheme, _, rest = location.partition("://")
    if scheme == "grpc+unix":
        return ""
    host = rest.rpartition(":")[0].strip("[]").lower()
    without = next(filter(None, map(os.environ.get, _NO_PROXIES)), "")
    if any(host.endswith(end) for end in without.lower().replace(" ", "").split(",") if end):
        return ""
    return next((name for name in _PROXIES if os.environ.get(name)), "")


def _resolved(location: str) -> tuple[str, ...] | None:
    """Returns the IP addresses of the servers behind a name; none if it is one server. None if it has no address."""
    host, _, port = location.partition("://")[2].rpartition(":")
    try:
        answers = socket.getaddrinfo(host, int(port), type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return None
    if not answers:
        return None
    # A server may have an address of each family, as localhost does. The system lists the family to prefer first.
    family = answers[0][0]
    ips = {str(answer[4][0]) for answer in answers if answer[0] == family}
    return tuple(sorted(ips)) if len(ips) > 1 else ()


def resolve(locations: Iterable[str], *, wait: bool = True) -> tuple[Address, ...]:
    """Returns the servers of these locations, each one once.

    Args:
        locations: the locations.
        wait: whether to wait for the resolver.
    """
    found: dict[Address, None] = {}
    for location in locations:
        ips = names.of(location) if wait else names.known(location)
        found.update(dict.fromkeys([Address(location, ip) for ip in ips] or [Address(location)]))
    return tuple(found)


names = _Names()
"""The names of this process."""

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=names.after_in_child)
