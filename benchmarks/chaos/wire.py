"""A wire between two network namespaces, of two TUN devices, that delays, drops and silences packets. It needs root."""

from __future__ import annotations

import contextlib
import fcntl
import heapq
import os
import random
import select
import struct
import threading
import time
from types import TracebackType
from typing import Self

import namespaces

_TUNSETIFF, _TUN, _NO_HEADER = 0x400454CA, 0x1, 0x1000
_PACKET = 1 << 16


class Wire:
    """Joins this namespace and a new one.

    Attributes:
        here: the address of this namespace on the wire.
        prefix: of a command that is to run in the other namespace.
        delay: seconds by which each packet is delayed, at most; packets overtake one another.
        loss: the share of the packets that are dropped.
        silent: while it is set, all packets are dropped.
        dropped: how many packets were dropped.
    """

    def __init__(self, seed: int) -> None:
        self._name = f"chaos{os.getpid()}"
        network = f"10.177.{os.getpid() % 256}"  # other runs have others
        self.here, self._there = f"{network}.1", f"{network}.2"
        self.prefix = namespaces.inside(self._name)
        self.delay, self.loss, self.silent = 0.0, 0.0, False
        self.dropped = 0
        self._rng = random.Random(seed)
        self._stop = threading.Event()
        self._ends: list[int] = []
        self._thread = threading.Thread(target=self._carry, daemon=True)

    def __enter__(self) -> Self:
        namespaces.ip("netns", "add", self._name)
        try:
            for name, address, peer, into in (
                (f"ca{os.getpid()}", self.here, self._there, ""),
                (f"cb{os.getpid()}", self._there, self.here, self._name),
            ):
                end = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
                fcntl.ioctl(end, _TUNSETIFF, struct.pack("16sH22x", name.encode(), _TUN | _NO_HEADER))
                self._ends.append(end)
                if into:
                    namespaces.ip("link", "set", name, "netns", into)
                inside = ("-n", into) if into else ()
                namespaces.ip(*inside, "addr", "add", address, "peer", peer, "dev", name)
                namespaces.ip(*inside, "link", "set", name, "mtu", "16000", "up")
            namespaces.ip("-n", self._name, "link", "set", "lo", "up")
        except BaseException:
            self._close()
            raise
        self._thread.start()
        return self

    def heal(self) -> None:
        """Ends all faults."""
        self.delay, self.loss, self.silent = 0.0, 0.0, False

    def _carry(self) -> None:
        waiting: list[tuple[float, int, int, bytes]] = []
        number = 0
        while not self._stop.is_set():
            pause = 0.2 if not waiting else max(0.0, min(0.2, waiting[0][0] - time.monotonic()))
            ready, _, _ = select.select(self._ends, [], [], pause)
            for end in ready:
                with contextlib.suppress(OSError):
                    while packet := os.read(end, _PACKET):
                        if self.silent or (self.loss and self._rng.random() < self.loss):
                            self.dropped += 1
                            continue
                        to = self._ends[1 - self._ends.index(end)]
                        if not self.delay:
                            os.write(to, packet)
                            continue
                        number += 1
                        due = time.monotonic() + self.delay * self._rng.random()
                        heapq.heappush(waiting, (due, number, to, packet))
            while waiting and waiting[0][0] <= time.monotonic():
                _, _, to, packet = heapq.heappop(waiting)
                with contextlib.suppress(OSError):
                    os.write(to, packet)

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join(5)
        self._close()

    def _close(self) -> None:
        for end in self._ends:
            os.close(end)
        namespaces.delete(self._name)


def possible() -> str:
    """Why there can be no wire here; "" if there can be one."""
    if not os.access("/dev/net/tun", os.R_OK | os.W_OK):
        return "there is no /dev/net/tun"
    return namespaces.possible()
