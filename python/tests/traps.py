"""Does something between two messages of a client that reads mapped memory: when it calls a socket, or reads its stream."""

from __future__ import annotations

import os
import socket
import types
from collections.abc import Callable
from typing import Any

import pytest

from penstock import local, sessionsocket
from penstock.channel import Channel
from penstock.messages import Messages

# The places at which tests act: with PENSTOCK_LONG each one, and else one of these.
STEP = 1 if "PENSTOCK_LONG" in os.environ else 5


class Trap:
    """Acts once, at the nth place, of the process that uses it. Places are before and after each call.

    Attributes:
        passed: the places so far.
    """

    def __init__(self, patch: pytest.MonkeyPatch, nth: int, act: Callable[[], object]) -> None:
        self.passed: list[str] = []
        self._nth = nth
        self._act = act
        trap = self

        class Watched(socket.socket):
            """A socket of a session that begins."""

            def connect(self, *given: Any) -> None:
                trap._around("connect", super().connect, *given)

            def recv(self, *given: Any) -> bytes:
                return bytes(trap._around("recv", super().recv, *given))

            def sendmsg(self, *given: Any) -> int:
                return int(trap._around("sendmsg", super().sendmsg, *given))

        patch.setattr(local, "socket", types.SimpleNamespace(**{**vars(socket), "socket": Watched}))
        for of, name in (
            (sessionsocket._Connection, "recvmsg"),
            (sessionsocket._Connection, "send"),
            (Channel, "stream"),
            (Messages, "_next_message"),
        ):
            patch.setattr(of, name, self._watched(name, getattr(of, name)))

    def _watched(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def watched(*given: Any, **named: Any) -> Any:
            return self._around(name, call, *given, **named)

        return watched

    def _around(self, name: str, call: Callable[..., Any], *given: Any, **named: Any) -> Any:
        self._pass(f"before {name}")
        answer = call(*given, **named)
        self._pass(f"after {name}")
        return answer

    def _pass(self, place: str) -> None:
        self.passed.append(place)
        if len(self.passed) == self._nth:
            self._act()
