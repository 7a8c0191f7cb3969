"""Divides the steps of a stream among actors, and returns their results in the order of the steps.

This module does not depend on the kind of actors: a caller starts actors, sends them requests, and reports what came of them.
`penstock.ray` runs them in Ray.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

from penstock import errors
from penstock.fields import Cursor

V = TypeVar("V")

MAX_TRIES = 3  # actors that may die while they make one step


class Start(NamedTuple):
    """Where an actor opens its stream.

    Attributes:
        cursor: the query's cursor, or several; None at the beginning of the epoch.
        every: the steps to read, counted from the cursor, in the form of a query's `every`.
    """

    cursor: Any
    every: tuple[int, int]


class Request(NamedTuple):
    """A request to an actor to make the result of one step.

    Attributes:
        actor: the actor's number.
        step: the step's number. An actor's requests have ascending steps from each start on.
        start: where to open the stream first; None to read on from the last request.
    """

    actor: int
    step: int
    start: Start | None


@dataclass(frozen=True)
class Made(Generic[V]):
    """What an actor made of one step.

    Attributes:
        step: the step's number.
        value: the result.
        cursor: the stream's position after the step. If the stream has no such step, the position at its end.
        size: the bytes of the result.
        ended: whether the stream ended before the step.
        failure: what the actor raised; the step has no result then.
    """

    step: int
    value: V
    cursor: Cursor | None
    size: int = 0
    ended: bool = False
    failure: Exception | None = None


class Turns(Generic[V]):
    """The steps of one epoch, from a position on, each made by one of several actors.

    With k actors, step t belongs to actor (t - s) mod k, where s is the step at which they were assigned. They are
    assigned again, at the step that is returned next, whenever an actor joins, leaves or dies. Results that are there
    and requests that are under way are kept then, so that each of these steps is made once.
    """

    def __init__(self, cursor: Any, step: int, *, ahead: int, limit: int) -> None:
        """Begins without an actor.

        Args:
            cursor: the position to begin at, as a query's cursor; None for the beginning of the epoch.
            step: the number of the first step.
            ahead: how many steps may be requested or waiting for each actor.
            limit: how many bytes of results may be requested or waiting, where one step is always allowed.
        """
        self._cursor = cursor
        self._step = step
        self._ahead = ahead
        self._limit = limit
        self._actors: tuple[int, ...] = ()
        self._base: tuple[Any, int] = (cursor, step)
        self._started: set[int] = set()  # the actors with a request since the last assignment
        self._making: dict[int, list[int]] = {}  # by actor, the steps that it was asked for, in this order
        self._made: dict[int, Made[V]] = {}
        self._tries: dict[int, int] = {}
        self._largest = 0  # the size of the largest result so far
        self._plan: Any = None
        self._end: int | None = None  # the number of steps, once an actor has read to the end
        self._stop: int | None = None  # the first step that failed

    @property
    def cursor(self) -> Any:
        """The position after the step that was returned last, as a query's cursor."""
        return self._cursor

    @property
    def step(self) -> int:
        """The number of the step to return next."""
        return self._step

    @property
    def actors(self) -> tuple[int, ...]:
        """The actors that take turns."""
        return self._actors

    @property
    def ended(self) -> bool:
        """Whether all steps were returned."""
        return self._step == self._end

    @property
    def pending(self) -> int:
        """The number of steps that were requested and not returned."""
        return len(self._made) + sum(map(len, self._making.values()))

    @property
    def maker(self) -> int | None:
        """The actor that was asked for the next step and has not answered; None if there is none."""
        return next((actor for actor, steps in self._making.items() if self._step in steps), None)

    def is_busy(self, actor: int) -> bool:
        """Whether an actor has a request that is not answered."""
        return bool(self._making.get(actor))

    def assign(self, actors: Sequence[int]) -> None:
        """Makes these actors take turns from the next step on.

        An actor that is left out answers its requests; it gets no others.
        """
        self._actors = tuple(actors)
        self._base = (self._cursor, self._step)
        self._started = set()

    def requests(self) -> list[Request]:
        """Returns the requests to send now, in ascending order of their steps."""
        if not self._actors or self.ended:
            return []
        cursor, first = self._base
        found, count = [], len(self._actors)
        pending = {step for steps in self._making.values() for step in steps}
        for step in range(self._step, self._bound(self._step + self._ahead * count)):
            if step in self._made or step in pending:
                continue
            if not self._fits(step, len(pending)):
                break
            turn = (step - first) % count
            actor = self._actors[turn]
            start = None if actor in self._started else Start(cursor, (turn, count))
            self._started.add(actor)
            self._making.setdefault(actor, []).append(step)
            pending.add(step)
            found.append(Request(actor, step, start))
        return found

    def _bound(self, step: int) -> int:
        return min(known for known in (step, self._end, self._stop) if known is not None)

    def _fits(self, step: int, pending: int) -> bool:
        """Whether a result of the largest size so far may be requested for a step."""
        held = sum(made.size for made in self._made.values())
        return step == self._step or held + (pending + 1) * self._largest <= self._limit

    def came(self, actor: int, made: Made[V]) -> None:
        """Takes an actor's answer to its oldest request.

        Raises:
            Corrupt: the answer is not of that step, or the actors' streams differ.
        """
        due = self._making[actor].pop(0)
        if made.failure is not None:
            self._stop = made.step if self._stop is None else min(self._stop, made.step)
        else:
            self._check(due, made)
            self._largest = max(self._largest, made.size)
        self._made[due] = made

    def _check(self, due: int, made: Made[V]) -> None:
        at = made.cursor or {}
        reached = int(at.get("step", 0))
        if made.step != due or (reached > due if made.ended else reached != due + 1):
            raise _corrupt(f"an actor was asked for step {due}, and its stream is at step {reached}")
        if made.ended:
            self._end = reached if self._end is None else self._end
        if self._end is not None and (reached != self._end if made.ended else due >= self._end):
            raise _corrupt(f"the streams of the actors end at different steps: {reached} and {self._end}")
        last = max([self._step, *(step + 1 for step, one in self._made.items() if not one.ended)])
        if made.ended and reached < last:
            raise _corrupt(f"a stream ended after {reached} steps, and another one has {last}")
        self._plan = at.get("plan") if self._plan is None else self._plan
        if at.get("plan") != self._plan:
            raise _corrupt(
                f"step {due} is of plan {at.get('plan')}, and earlier ones are of plan {self._plan}"
            )

    def died(self, actor: int) -> None:
        """Gives the unanswered requests of a dead actor to the others.

        Raises:
            Unavailable: too many actors have died while they made the same step.
        """
        unanswered = self._making.pop(actor, [])
        if unanswered:
            self._count_try(unanswered[0])
        if unanswered or actor in self._actors:
            self.assign([one for one in self._actors if one != actor])

    def lost(self) -> None:
        """Makes the actors make the next step again, because its result was lost with the machine that held it.

        Raises:
            Unavailable: too many actors have died while they made it.
        """
        del self._made[self._step]
        self._count_try(self._step)
        self.assign(self._actors)

    def _count_try(self, step: int) -> None:
        tries = self._tries[step] = self._tries.get(step, 0) + 1
        if tries == MAX_TRIES:
            raise errors.Unavailable(
                f"{MAX_TRIES} actors died, one after the other, while they made step {step}",
                remedy="see Ray's log for the cause: the function may need more memory than a node has",
            )

    def next(self) -> Made[V] | None:
        """Returns the next step's result; None if it is not there yet, or if all steps were returned."""
        made = self._made.get(self._step)
        return None if made is None or made.ended else made

    def advance(self) -> None:
        """Moves past the step that `next` returned."""
        made = self._made.pop(self._step)
        self._tries.pop(self._step, None)
        self._cursor, self._step = made.cursor, self._step + 1


def _corrupt(message: str) -> errors.Corrupt:
    return errors.Corrupt(message, remedy="read again from the cursor of the last step")
