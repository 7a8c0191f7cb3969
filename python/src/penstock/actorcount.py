"""Chooses the number of actors that make the steps of a loop, by how long the loop waits for them."""

from __future__ import annotations

import math
from dataclasses import dataclass

GROW_ABOVE = 0.10  # the share of the loop's time that it waits
SHRINK_BELOW = 0.02
SPARE = 1.25  # the actors that the loop keeps, for each that it needs
WINDOW = 8  # the least number of steps between two decisions
IDLE_WINDOWS = 3  # consecutive windows after which actors are too many


@dataclass(frozen=True)
class StepTimes:
    """The seconds that one step took.

    Attributes:
        loop: the loop's time, including its wait.
        waited: the part of it that the loop waited for the result.
        function: the time of the function in its actor.
        reading: the time that the actor waited for the step's batch.
    """

    loop: float
    waited: float
    function: float
    reading: float


class ActorCount:
    """The number of actors, between two limits.

    It grows if the loop waits for more than a tenth of its time while the actors are busy with the function, and not
    with waiting for the server. It shrinks only after three windows in which the loop hardly waited and a quarter more
    actors than needed remain, so that it settles.
    """

    def __init__(self, least: int, most: int) -> None:
        """Begins with the least number of actors.

        Args:
            least: the least number, at least 1.
            most: the largest number.
        """
        self._least, self._most = least, most
        self._wanted = least
        self._window: list[StepTimes] = []
        self._skip = 0  # the steps that were made before the last change
        self._idle = 0  # the windows with too many actors, up to now

    @property
    def wanted(self) -> int:
        """The number of actors that the loop needs."""
        return self._wanted

    def changed(self, pending: int) -> None:
        """Begins a new window, because the number of actors changed.

        Args:
            pending: the number of steps that were requested before and not returned.
        """
        self._window, self._skip, self._idle = [], pending, 0

    def step(self, times: StepTimes, actors: int) -> None:
        """Counts a step, and decides after each window.

        Args:
            times: the times of the step.
            actors: the number of actors that take turns. Nothing is counted while it differs from the wanted number.
        """
        if actors != self._wanted:
            return
        if self._skip:
            self._skip -= 1
            return
        self._window.append(times)
        if len(self._window) < max(WINDOW, 4 * actors):
            return
        self._decide(self._window)
        self._window = []

    def _decide(self, window: list[StepTimes]) -> None:
        loop, waited = sum(one.loop for one in window), sum(one.waited for one in window)
        function, reading = sum(one.function for one in window), sum(one.reading for one in window)
        # In the loop's own time for its steps, the actors must make as many.
        own = max(loop - waited, function / self._most)
        needed = function / own if own else 0.0
        if waited > GROW_ABOVE * loop:
            self._idle = 0
            if function > reading:
                self._wanted = min(self._most, 2 * self._wanted, max(self._wanted + 1, math.ceil(needed)))
            return
        spared = max(self._least, math.ceil(SPARE * needed))
        self._idle = self._idle + 1 if waited < SHRINK_BELOW * loop and spared < self._wanted else 0
        if self._idle == IDLE_WINDOWS:
            self._wanted, self._idle = spared, 0
