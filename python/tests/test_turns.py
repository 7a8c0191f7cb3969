"""Steps dealt to actors that join, leave and die at random, against the stream that they divide."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from penstock import errors
from penstock.actorcount import ActorCount, StepTimes
from penstock.turns import MAX_TRIES, Made, Request, Turns

CASES = 3000


def cursor(step: int, plan: str = "p") -> dict[str, Any]:
    return {"step": step, "plan": plan}


@dataclass
class Reader:
    """An actor with a stream of every n-th step, which only goes forward."""

    steps: int
    next_step: int = -1
    stride: int = 1
    queue: list[Request] = field(default_factory=list)

    def answer(self, size: int) -> Made[int]:
        step = self._read(self.queue.pop(0))
        if step >= self.steps:
            return Made(step, -1, cursor(self.steps), ended=True)
        return Made(step, step * step, cursor(step + 1), size)

    def _read(self, request: Request) -> int:
        if request.start is not None:
            at, (first, of) = request.start
            self.next_step, self.stride = (at["step"] if at else 0) + first, of
        assert self.next_step <= request.step, "a stream was asked to go back"
        assert (request.step - self.next_step) % self.stride == 0, "a step of another actor's turn"
        self.next_step = request.step + self.stride
        return request.step


@dataclass
class World:
    """Actors of which any one may be the next to do anything."""

    rng: random.Random
    steps: int
    turns: Turns[int]
    ahead: int
    limit: int
    readers: dict[int, Reader] = field(default_factory=dict)
    tries: dict[int, int] = field(default_factory=dict)
    made: list[int] = field(default_factory=list)
    remade: int = 0  # requests and results that were lost
    returned: list[int] = field(default_factory=list)
    largest: int = 0

    def run(self) -> None:
        self.join()
        moves: list[tuple[Callable[[], None], float]] = [
            (self.answer, 6),
            (self.take, 6),
            (self.join, 0.3),
            (self.leave, 0.2),
            (self.die, 0.3),
            (self.lose, 0.1),
        ]
        chosen, weights = [move for move, _ in moves], [weight for _, weight in moves]
        while not self.turns.ended:
            self.send()
            self.rng.choices(chosen, weights)[0]()

    def send(self) -> None:
        for request in self.turns.requests():
            self.readers[request.actor].queue.append(request)
        assert not self.turns.requests(), "the same request twice"
        due = [
            number
            for number, reader in self.readers.items()
            if self.turns.step in [request.step for request in reader.queue]
        ]
        assert due == ([] if self.turns.maker is None else [self.turns.maker])

    def answer(self) -> None:
        busy = [number for number, reader in self.readers.items() if reader.queue]
        if busy:
            number = self.rng.choice(busy)
            made = self.readers[number].answer(self.rng.randint(0, 20))
            self.made.append(made.step)
            self.largest = max(self.largest, made.size)
            self.turns.came(number, made)

    def take(self) -> None:
        made = self.turns.next()
        if made is not None:
            self.turns.advance()
            self.returned.append(made.value)
            assert self.turns.cursor == cursor(made.step + 1)

    def join(self) -> None:
        number = len(self.readers) + len(self.tries) + self.rng.randrange(1 << 40)
        self.readers[number] = Reader(self.steps)
        self.turns.assign([*self.turns.actors, number])

    def leave(self) -> None:
        if len(self.turns.actors) > 1:
            self.turns.assign(self.turns.actors[:-1])

    def die(self) -> None:
        number = self.rng.choice(list(self.readers))
        queue = self.readers[number].queue
        first = queue[0].step if queue else -1
        if self.tries.get(first, 0) + 1 < MAX_TRIES:
            self.tries[first] = self.tries.get(first, 0) + bool(queue)
            self.remade += len(queue)
            del self.readers[number]
            self.turns.died(number)
        if not self.turns.actors:
            self.join()

    def lose(self) -> None:
        step = self.turns.step
        if self.turns.next() is not None and self.tries.get(step, 0) + 1 < MAX_TRIES:
            self.tries[step] = self.tries.get(step, 0) + 1
            self.remade += 1
            self.turns.lost()


def test_steps_come_in_order_whatever_becomes_of_the_actors() -> None:
    changed = 0
    for seed in range(CASES):
        rng = random.Random(seed)
        steps, begun = rng.randint(0, 60), rng.choice([0, 0, rng.randint(0, 60)])
        begun = min(begun, steps)
        ahead, limit = rng.randint(1, 4), rng.choice([0, 30, 1 << 30])
        turns: Turns[int] = Turns(cursor(begun) if begun else None, begun, ahead=ahead, limit=limit)
        world = World(rng, steps, turns, ahead, limit)
        world.run()
        assert world.returned == [step * step for step in range(begun, steps)], f"seed {seed}"
        within = [step for step in world.made if step < steps]
        assert len(within) - len(set(within)) <= world.remade, (
            f"seed {seed}: a step was made again for nothing"
        )
        changed += world.remade
    assert changed > CASES  # the cases are not all calm


def test_results_ahead_of_the_loop_are_bounded() -> None:
    turns: Turns[int] = Turns(None, 0, ahead=2, limit=100)
    turns.assign([1, 2, 3])
    assert [request.step for request in turns.requests()] == [0, 1, 2, 3, 4, 5]
    for step in range(6):
        turns.came(1 + step % 3, Made(step, step, cursor(step + 1), size=30))
    turns.advance()
    assert [request.step for request in turns.requests()] == [], "5 results of 30 bytes are held"
    for _ in range(3):
        turns.advance()
    assert [request.step for request in turns.requests()] == [6]


def test_one_step_is_requested_whatever_its_size() -> None:
    turns: Turns[int] = Turns(None, 0, ahead=2, limit=0)
    turns.assign([1, 2])
    assert [request.step for request in turns.requests()] == [0, 1, 2, 3], "no size is known yet"
    for step in range(4):
        turns.came(1 + step % 2, Made(step, step, cursor(step + 1), size=30))
        turns.advance()
    assert [request.step for request in turns.requests()] == [4]


def test_a_step_that_ends_actors_ends_the_loop() -> None:
    turns: Turns[int] = Turns(None, 0, ahead=1, limit=100)
    for actor in range(MAX_TRIES - 1):
        turns.assign([actor])
        assert [request.step for request in turns.requests()] == [0]
        turns.died(actor)
    turns.assign([MAX_TRIES])
    turns.requests()
    with pytest.raises(
        errors.Unavailable, match="3 actors died, one after the other, while they made step 0"
    ):
        turns.died(MAX_TRIES)


def test_an_idle_actor_may_die_any_number_of_times() -> None:
    turns: Turns[int] = Turns(None, 0, ahead=1, limit=100)
    for actor in range(10):
        turns.assign([actor])
        turns.died(actor)
    assert turns.actors == ()


def test_a_failure_is_returned_at_its_step() -> None:
    turns: Turns[int] = Turns(None, 0, ahead=2, limit=100)
    turns.assign([1, 2])
    turns.requests()
    turns.came(2, Made(1, -1, None, failure=ValueError("no")))
    assert turns.next() is None
    turns.came(1, Made(0, 7, cursor(1)))
    first = turns.next()
    assert first is not None
    assert first.value == 7
    turns.advance()
    assert turns.requests() == [], "nothing after the failure is asked for"
    second = turns.next()
    assert second is not None
    assert isinstance(second.failure, ValueError)
    assert turns.cursor == cursor(1)


@pytest.mark.parametrize(
    "second",
    [
        Made(1, 0, cursor(3)),
        Made(1, 0, cursor(2, "another")),
        Made(2, 0, cursor(2)),
        Made(1, 0, cursor(0), ended=True),
        Made(1, 0, cursor(2), ended=True),
    ],
    ids=["another step", "another plan", "another request", "a short end", "a late end"],
)
def test_streams_that_differ_are_refused(second: Made[int]) -> None:
    turns: Turns[int] = Turns(None, 0, ahead=1, limit=100)
    turns.assign([1, 2])
    turns.requests()
    turns.came(1, Made(0, 0, cursor(1)))
    with pytest.raises(errors.Corrupt):
        turns.came(2, second)


def test_ends_that_differ_are_refused() -> None:
    turns: Turns[int] = Turns(None, 0, ahead=2, limit=100)
    turns.assign([1, 2])
    turns.requests()
    turns.came(1, Made(0, 0, cursor(1)))
    turns.came(1, Made(2, 0, cursor(2), ended=True))
    with pytest.raises(errors.Corrupt, match="the streams of the actors end at different steps"):
        turns.came(2, Made(1, 0, cursor(1), ended=True))


def counted(count: ActorCount, steps: int, own: float, function: float, reading: float = 0.0) -> list[int]:
    """The numbers of actors of a loop whose actors work at once: it waits for what they cannot make."""
    actors, numbers = count.wanted, [count.wanted]
    for _ in range(steps):
        pace = max(own, (function + reading) / actors)
        count.step(StepTimes(pace, pace - own, function, reading), actors)
        if count.wanted != actors:
            actors = count.wanted
            numbers.append(actors)
            count.changed(2 * actors)
    return numbers


def test_actors_grow_until_the_loop_does_not_wait() -> None:
    assert counted(ActorCount(1, 8), 1000, own=0.005, function=0.020) == [1, 2, 4]
    assert counted(ActorCount(1, 3), 1000, own=0.005, function=0.020) == [1, 2, 3]
    assert counted(ActorCount(1, 8), 1000, own=0.0, function=0.020) == [1, 2, 4, 8]


def test_actors_do_not_grow_for_a_slow_server() -> None:
    assert counted(ActorCount(1, 8), 1000, own=0.005, function=0.001, reading=0.020) == [1]


def test_actors_shrink_to_what_the_loop_needs_and_stay() -> None:
    count = ActorCount(1, 8)
    assert counted(count, 1000, own=0.005, function=0.040) == [1, 2, 4, 8]
    assert counted(count, 1000, own=0.050, function=0.040) == [8, 1]
    assert counted(count, 1000, own=0.011, function=0.040) == [1, 2, 4]
    assert counted(ActorCount(3, 8), 1000, own=1.0, function=0.001) == [3]


def test_a_change_that_is_under_way_is_not_counted() -> None:
    count = ActorCount(1, 8)
    for _ in range(100):
        count.step(StepTimes(1.0, 0.9, 1.0, 0.0), 2)
    assert count.wanted == 1
