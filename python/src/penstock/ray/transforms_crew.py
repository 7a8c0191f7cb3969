"""Starts, counts and stops the actors of transforms in Ray."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from typing import Any

import ray
from ray.exceptions import NodeDiedError, OutOfMemoryError, RayActorError, RayTaskError, WorkerCrashedError

from penstock import errors

MAX_FAILED_STARTS = 3  # one after the other

# What a call raises if its actor is gone, rather than what the actor's code raises.
DEATHS = (RayActorError, WorkerCrashedError, NodeDiedError, OutOfMemoryError)


def cause(failure: Exception) -> Exception:
    """Returns what a call to an actor failed with: this package's own error, or the one by Ray with the traceback."""
    if isinstance(failure, RayTaskError) and isinstance(failure.cause, errors.Error):
        return failure.cause
    return failure


class Crew:
    """The actors of one loop. It outlives an epoch. Not safe for threads."""

    def __init__(self, create: Callable[[], Any], start_timeout: float) -> None:
        """Starts nothing.

        Args:
            create: creates an actor.
            start_timeout: the seconds that the loop waits for the first actor.
        """
        self._create = create
        self._start_timeout = start_timeout
        self._count = 0
        self._failed_starts = 0
        self._alone_since: float | None = None  # since when there is no actor that is ready
        self._ready: dict[int, Any] = {}  # actors by number
        self._places: dict[int, str] = {}  # where they run
        self._starting: dict[
            Any, tuple[int, Any]
        ] = {}  # numbers and actors, by the reference of their preparation

    @property
    def ready(self) -> tuple[int, ...]:
        """The numbers of the actors that can be asked, in the order in which they were started."""
        return tuple(sorted(self._ready))

    @property
    def starting(self) -> list[Any]:
        """The references that become ready with the actors that start."""
        return list(self._starting)

    def actor(self, number: int) -> Any:
        """An actor that is ready."""
        return self._ready[number]

    def place(self, number: int) -> str:
        """Where an actor that is ready runs: its process and its node, for errors."""
        return self._places[number]

    def resize(self, wanted: int) -> None:
        """Takes in the actors that have become ready, and starts others until there are as many as wanted.

        Raises what an actor's preparation raised.

        Raises:
            Unavailable: no actor has become ready for too long, or several died before they were.
        """
        if self._starting:
            prepared, _ = ray.wait(self.starting, num_returns=len(self._starting), timeout=0)
            for reference in prepared:
                self._take_in(reference)
        while len(self._ready) + len(self._starting) < wanted:
            actor = self._create()
            self._starting[actor.prepare.remote()] = self._count, actor
            self._count += 1
        while self._starting and len(self._ready) + len(self._starting) > wanted:
            _, (_, actor) = self._starting.popitem()
            _kill(actor)
        self._check_someone_starts()

    def _check_someone_starts(self) -> None:
        now = time.monotonic()
        if self._ready:
            self._alone_since = None
        elif self._alone_since is None:
            self._alone_since = now
        elif now - self._alone_since > self._start_timeout:
            raise errors.Unavailable(
                f"Ray started no actor in {self._start_timeout:g} seconds",
                remedy="compare `ray status` with what an actor needs: one CPU, unless options= says otherwise; "
                "start_timeout= sets a longer time",
            )

    def _take_in(self, reference: Any) -> None:
        number, actor = self._starting.pop(reference)
        try:
            place = ray.get(reference)
        except DEATHS as e:
            if isinstance(e, RayActorError) and e.actor_init_failed:
                raise errors.Invalid(
                    f"the function cannot be unpickled in an actor: {e}",
                    remedy="define it in the program itself, or send its module to the nodes with"
                    ' ray.init(runtime_env={"py_modules": [module]})',
                ) from e
            self._failed_starts += 1
            if self._failed_starts == MAX_FAILED_STARTS:
                raise errors.Unavailable(
                    f"{MAX_FAILED_STARTS} actors died, one after the other, before they were ready: {e}",
                    remedy="see Ray's log for the cause",
                ) from e
            return
        except Exception as e:
            raise cause(e) from e
        self._failed_starts = 0
        self._ready[number], self._places[number] = actor, place

    def stop(self, number: int) -> None:
        """Ends an actor, which may be dead."""
        del self._places[number]
        _kill(self._ready.pop(number))

    def close(self) -> None:
        """Ends all actors."""
        for actor in [*self._ready.values(), *(actor for _, actor in self._starting.values())]:
            _kill(actor)
        self._ready, self._places, self._starting = {}, {}, {}


def _kill(actor: Any) -> None:
    if not ray.is_initialized():
        return  # its actors are gone, and a call would start another Ray
    with contextlib.suppress(Exception):  # the actor may be dead
        ray.kill(actor)
