"""The course of a run: the faults at their times, then repairs."""

from __future__ import annotations

import signal
import threading
import time
from collections import Counter
from collections.abc import Callable

from chaos.jobs import Commands, Trainer
from chaos.keys import EVERY, Keys
from chaos.lake import Lake
from chaos.relay import Relay
from chaos.schedule import Fault
from chaos.server import BOUND, Server
from chaos.wire import Wire

_AHEAD, _BACK = 3600, -600
_VEND_EVERY = 30.0
_EXPIRE_EVERY = 60.0


class Course:
    """All that faults happen to.

    Attributes:
        made: how many faults of each kind were made.
    """

    def __init__(
        self,
        lake: Lake,
        keys: Keys,
        servers: list[Server],
        trainers: list[Trainer],
        commands: list[Commands],
        wire: Wire | None,
    ) -> None:
        self._lake, self._keys, self._servers, self._wire = lake, keys, servers, wire
        self._trainers, self._commands = trainers, commands
        self.made: Counter[str] = Counter()
        self.errors: list[str] = []
        self.stop = threading.Event()
        self._periodic = [
            threading.Thread(target=self._every, args=of)
            for of in (
                (1.0, self._look),
                (EVERY, keys.rotate),
                (_VEND_EVERY, lake.vend),
                (_EXPIRE_EVERY, lake.expire),
            )
        ]
        for thread in self._periodic:
            thread.start()

    def play(self, faults: list[Fault], begin: float, end: float, say: Callable[[str], None]) -> None:
        """Makes the faults whose times are between begin and end, in seconds, and ends all faults then."""
        began = time.monotonic() - begin
        threads = []
        for fault in (fault for fault in faults if begin <= fault.at < end):
            time.sleep(max(0.0, began + fault.at - time.monotonic()))
            say(
                f"{time.monotonic() - began:7.1f} s  {fault.kind}, {fault.target}, {fault.lasts:.1f} s, {fault.amount:.2f}"
            )
            thread = threading.Thread(target=self._make, args=(fault,), daemon=True)
            thread.start()
            threads.append(thread)
        time.sleep(max(0.0, began + end - time.monotonic()))
        for thread in threads:
            thread.join(60)
        self.heal()

    def heal(self) -> None:
        """Ends all faults."""
        for part in (self._lake, self._wire, *self._servers):
            if part is not None:
                part.heal()
        self._keys.mend()
        self._keys.sign()
        for trainer in self._trainers:
            trainer.send(signal.SIGCONT)

    def close(self) -> None:
        """Ends what happens all the time."""
        self.stop.set()
        for thread in self._periodic:
            thread.join()

    def _every(self, seconds: float, what: Callable[[], None]) -> None:
        while not self.stop.wait(seconds):
            try:
                what()
            except Exception as e:  # pyiceberg loses a commit that races with a server's
                self.errors.append(
                    f"{getattr(what, '__qualname__', what)}: {type(e).__name__}: {str(e)[:200]}"
                )

    def _look(self) -> None:
        for server in self._servers:
            server.look()

    def _make(self, fault: Fault) -> None:
        self.made[fault.kind] += 1
        what, _, how = fault.kind.partition(" ")
        if what in ("s3", "rest"):
            weather = self._lake.s3 if what == "s3" else self._lake.rest
            share = 1.0 if how in ("silent", "denied") and fault.amount > 0.5 else 0.1 + 0.6 * fault.amount
            weather.begin(how, share)
            self._wait(fault)
            weather.end(how)
        elif what == "relay" or what == "sql":
            self._disturb(self._lake.sql if what == "sql" else self._server(fault).relay, how, fault)
        elif what == "packets":
            self._packets(how, fault)
        elif what in ("kill", "stop", "terminate"):
            self._signal(what, how, fault)
        else:
            self._others(fault)

    def _wait(self, fault: Fault) -> None:
        self.stop.wait(fault.lasts)

    def _server(self, fault: Fault, first: int = 0) -> Server:
        return self._servers[first + fault.target % (len(self._servers) - first)]

    def _signal(self, what: str, whom: str, fault: Fault) -> None:
        if whom == "command":
            self._commands[fault.target % len(self._commands)].kill()
            return
        first = 0 if what == "stop" else 1
        process = (
            self._server(fault, first)
            if whom == "server"
            else self._trainers[fault.target % len(self._trainers)]
        )
        if what == "stop":
            process.send(signal.SIGSTOP)
            self._wait(fault)
            process.send(signal.SIGCONT)
        else:
            process.send(signal.SIGKILL if what == "kill" else signal.SIGTERM)

    def _disturb(self, relay: Relay | None, how: str, fault: Fault) -> None:
        if relay is None:
            return
        if how == "void":
            relay.void()
            return
        if how == "delay":
            relay.delay = 0.02 + 0.3 * fault.amount
        elif how == "silence":
            relay.silent = True
        elif how == "refusal":
            relay.refuses = True
            relay.reset()
        else:
            relay.cuts = int(2 ** (8 + 12 * fault.amount))
        self._wait(fault)
        relay.heal()

    def _packets(self, how: str, fault: Fault) -> None:
        if self._wire is None:
            return
        if how == "lost":
            self._wire.loss = 0.01 + 0.2 * fault.amount
        elif how == "delayed":
            self._wire.delay = 0.01 + 0.2 * fault.amount
        else:
            self._wire.silent = True
        self._wait(fault)
        self._wire.heal()

    def _others(self, fault: Fault) -> None:
        server = self._server(fault)
        if fault.kind.startswith("clock"):
            server.shift(_AHEAD if fault.kind == "clock ahead" else _BACK)
            self._wait(fault)
            server.shift(0)
        elif fault.kind == "disk full":
            disk = server.disks[fault.target // 7 % len(server.disks)]
            disk.fill()
            self._wait(fault)
            disk.heal()
        elif fault.kind == "memory squeezed":
            self._squeeze(server, fault)
        elif fault.kind in ("reload", "bad config"):
            bad = fault.kind == "bad config"
            self._lake.configure(*((0, "}") if bad else (fault.target + 1,)))
            server.send(signal.SIGHUP)
            self._wait(fault)
            self._lake.configure()
        elif fault.kind == "wrong certificate":
            self._keys.mismatch()
            self._wait(fault)
            self._keys.mend()
        else:
            self._keys.sign(-10)
            self._wait(fault)
            self._keys.sign()

    def _squeeze(self, server: Server, fault: Fault) -> None:
        """Limits memory to the bound, or, for a server that may be killed, to less."""
        if server.group is None:
            return
        below = server.number > 0 and fault.amount > 0.5
        server.squeezed = server.squeezed or below
        server.group.squeeze(int(BOUND * (1 - fault.amount)) if below else BOUND)
        self._wait(fault)
        server.group.heal()
        server.squeezed = False
