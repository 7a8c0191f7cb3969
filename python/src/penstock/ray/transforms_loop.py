"""One epoch of a loop whose batches actors transform."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Generic, NamedTuple, Self, TypeVar

import ray
from ray.exceptions import GetTimeoutError, ObjectLostError

from penstock import errors
from penstock.actorcount import ActorCount, StepTimes
from penstock.fields import Cursor
from penstock.position import Position
from penstock.ray.transforms_actor import Answer, unpacked
from penstock.ray.transforms_crew import DEATHS, Crew, cause
from penstock.turns import Made, Request, Turns

R = TypeVar("R", covariant=True)

LOOK = 1.0  # seconds after which the loop looks for actors that do not start
FETCH = 300.0  # seconds that a result may take from its node


class _Result(NamedTuple):
    """A result that an actor has made: Ray's reference to it, and what the actor says of it."""

    reference: Any
    answer: Answer | None


class Loop(Iterator[tuple[R, Cursor]], Generic[R]):
    """Yields the result of each step, and the stream's cursor after it. Not safe for threads."""

    def __init__(
        self,
        crew: Crew,
        count: ActorCount,
        turns: Turns[Any],
        query: Mapping[str, Any],
        start: Position,
        step_timeout: float,
    ) -> None:
        """Asks no actor before the first `next`.

        Args:
            crew: the actors.
            count: chooses their number.
            turns: the steps to return.
            query: the query, without its position.
            start: the position at which the turns begin.
            step_timeout: how many seconds an actor may take for a step.
        """
        self._crew = crew
        self._count = count
        self._turns = turns
        self._query = dict(query)
        self._start = start
        self._start_step = turns.step
        self._requests: dict[
            int, list[tuple[int, Any, Any]]
        ] = {}  # by actor: step, references of answer and result
        self._step_timeout = step_timeout
        self._since: dict[int, float] = {}  # by actor: when it could begin its oldest request, at the latest
        self._returned: float | None = None  # when the last step was
        self._failure: Exception | None = None
        self.waited = 0.0

    @property
    def position(self) -> Position:
        """The position after the last step that was returned."""
        if self._turns.step == self._start_step:
            return replace(self._start, ended=self.ended)
        return replace(self._start, cursors=(self._turns.cursor,), ended=self.ended)

    @property
    def ended(self) -> bool:
        """Whether all steps were returned."""
        return self._turns.ended

    @property
    def actors(self) -> int:
        """The number of actors that take turns."""
        return len(self._turns.actors)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> tuple[R, Cursor]:
        if self._failure is not None:
            raise self._failure
        if self.ended:
            raise StopIteration
        try:
            found = self._next()
        except BaseException as e:
            self.close(e if isinstance(e, Exception) else None)
            raise
        if found is None:
            raise StopIteration
        return found

    def _next(self) -> tuple[R, Cursor] | None:
        began = time.monotonic()
        while not self.ended:
            self._set_actors()
            self._send()
            made = self._turns.next()
            if made is None:
                self._wait()
                continue
            if made.failure is not None:
                raise made.failure
            try:
                value: R = unpacked(ray.get(made.value.reference, timeout=FETCH))
            except (ObjectLostError, *DEATHS):
                self._turns.lost()
                continue
            except GetTimeoutError as e:
                raise errors.Unavailable(
                    f"the result of step {made.step} did not come from its node in {FETCH:g} seconds",
                    remedy="check the network between the nodes; read again from the cursor of the last step",
                ) from e
            self._turns.advance()
            self._send()
            self._meter(began, made.value.answer)
            return value, self._turns.cursor
        return None

    def _meter(self, began: float, answer: Answer) -> None:
        now = time.monotonic()
        if self._returned is not None:
            times = StepTimes(now - self._returned, now - began, answer.function, answer.reading)
            self._count.step(times, self.actors)
            self.waited += now - began
        self._returned = now

    def _set_actors(self) -> None:
        """Lets the wanted number of actors take turns, as far as there are so many."""
        self._crew.resize(self._count.wanted)
        taking = self._crew.ready[: self._count.wanted]
        if taking != self._turns.actors:
            self._turns.assign(taking)
            self._count.changed(self._turns.pending)
        for number in self._crew.ready[len(taking) :]:
            if not self._turns.is_busy(number):
                self._crew.stop(number)

    def _send(self) -> None:
        for request in self._turns.requests():
            self._send_one(request)

    def _send_one(self, request: Request) -> None:
        opening = None if request.start is None else (self._query, request.start)
        make = self._crew.actor(request.actor).make.options(num_returns=2)
        if request.actor not in self._requests:
            self._since[request.actor] = time.monotonic()  # before the actor can begin
        answer, result = make.remote(request.step, opening)
        self._requests.setdefault(request.actor, []).append((request.step, answer, result))

    def _wait(self) -> None:
        """Waits until an actor has answered, died or started."""
        oldest = {requests[0][1]: actor for actor, requests in self._requests.items()}
        done, _ = ray.wait([*oldest, *self._crew.starting], timeout=LOOK, fetch_local=False)
        for reference in done:
            if reference in oldest:
                self._receive(oldest[reference])
        self._check_deadline()

    def _check_deadline(self) -> None:
        """Ends the actor from which the next step is due, if the step that it makes takes too long.

        Raises:
            Unavailable: the step took too long.
        """
        actor = self._turns.maker
        if actor is None or time.monotonic() - self._since[actor] < self._step_timeout:
            return
        step, answer, _ = self._requests[actor][0]
        if ray.wait([answer], timeout=0, fetch_local=False)[0]:
            return  # it came while the loop did not look
        place = self._crew.place(actor)
        self._crew.stop(actor)
        raise errors.Unavailable(
            f"step {step} was not made in {self._step_timeout:g} seconds by the actor in {place}; the actor was ended",
            remedy="see what the function waits for: py-spy dump shows it while a step is made; step_timeout= sets a"
            " longer time",
        )

    def _receive(self, actor: int) -> None:
        """Takes an actor's answer to its oldest request."""
        step, answer, result = self._requests[actor][0]
        try:
            made = self._made(step, ray.get(answer), result)
        except DEATHS:
            del self._requests[actor]
            self._crew.stop(actor)
            self._turns.died(actor)
            return
        except Exception as e:
            # The result has the same failure; Ray reports those that nobody has asked for.
            _discard(result)
            made = Made(step, None, None, failure=cause(e))
        self._requests[actor].pop(0)
        self._since[actor] = time.monotonic()
        if not self._requests[actor]:
            del self._requests[actor]
        self._turns.came(actor, made)

    def _made(self, step: int, answer: Answer, result: Any) -> Made[Any]:
        if not answer.ended:
            ray.wait([result], timeout=0)  # Ray now copies it to this node
        return Made(step, _Result(result, answer), answer.cursor, answer.size, ended=answer.ended)

    def close(self, failure: Exception | None = None) -> None:
        """Ends the loop; actors finish what they were asked for."""
        if self._failure is None:
            self._failure = failure or errors.Invalid(
                "the loop over the transformed batches was closed", remedy="iterate again"
            )
        self._requests = {}


def _discard(result: Any) -> None:
    try:
        ray.get(result)
    except Exception:
        return
