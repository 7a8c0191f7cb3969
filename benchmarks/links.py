"""Links of a fixed rate between a namespace of trainers and one namespace for each replica. They need root.

Each link is a pair of virtual devices with a token bucket (tc's tbf) at both ends, so the links share neither their rate nor
their queues.
"""

from __future__ import annotations

import os
import subprocess
from types import TracebackType
from typing import Self

import namespaces

_BURST = "128kb"  # above the largest packet that the kernel hands to a device
_QUEUE = "50ms"
_NOBODY = "02:00:00:00:00:01"  # a hardware address that no device has


class Links:
    """One link for each replica.

    Attributes:
        trainers: prefix of a command that is to run in the namespace of trainers.
        hosts: the address of each replica, as trainers reach it.
    """

    def __init__(self, count: int, mbit: int) -> None:
        self._mbit = mbit
        self._near = f"links{os.getpid()}"
        self._far = [f"{self._near}-{number}" for number in range(count)]
        self.trainers = namespaces.inside(self._near)
        self.hosts = [f"10.178.{number}.2" for number in range(count)]

    def replica(self, number: int) -> list[str]:
        """The prefix of a command that is to run in a replica's namespace."""
        return namespaces.inside(self._far[number])

    def __enter__(self) -> Self:
        try:
            for name in (self._near, *self._far):
                namespaces.ip("netns", "add", name)
                namespaces.ip("-n", name, "link", "set", "lo", "up")
            for number, far in enumerate(self._far):
                self._connect(number, far)
        except BaseException:
            self._close()
            raise
        return self

    def _connect(self, number: int, far: str) -> None:
        near_end, far_end = _ends(number)
        pair = ["type", "veth", "peer", "name", far_end, "netns", far]
        namespaces.ip("-n", self._near, "link", "add", near_end, *pair)
        for name, end, address in (
            (self._near, near_end, f"10.178.{number}.1"),
            (far, far_end, self.hosts[number]),
        ):
            namespaces.ip("-n", name, "addr", "add", f"{address}/30", "dev", end)
            namespaces.ip("-n", name, "link", "set", end, "up")
            shape = ["root", "tbf", "rate", f"{self._mbit}mbit", "burst", _BURST, "latency", _QUEUE]
            subprocess.run(
                [*namespaces.inside(name), "tc", "qdisc", "add", "dev", end, *shape],
                check=True,
                capture_output=True,
            )

    def silence(self, number: int) -> None:
        """From now on, a link loses all packets, without an error at either end.

        The kernel here may have no netem, so the ends address their packets to hardware that is not there.
        """
        for name, end, peer in self._neighbors(number):
            namespaces.ip(
                "-n", name, "neigh", "replace", peer, "lladdr", _NOBODY, "dev", end, "nud", "permanent"
            )

    def heal(self, number: int) -> None:
        """A silenced link carries packets again."""
        for name, end, peer in self._neighbors(number):
            namespaces.ip("-n", name, "neigh", "del", peer, "dev", end)

    def _neighbors(self, number: int) -> list[tuple[str, str, str]]:
        """For both ends of a link: the namespace, the device, and the address of the other end."""
        near_end, far_end = _ends(number)
        return [
            (self._near, near_end, self.hosts[number]),
            (self._far[number], far_end, f"10.178.{number}.1"),
        ]

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close()

    def _close(self) -> None:
        for name in (self._near, *self._far):
            namespaces.delete(name)


def _ends(number: int) -> tuple[str, str]:
    """The devices of a link: in the namespace of trainers, and in the replica's."""
    return f"near{number}", f"far{number}"
