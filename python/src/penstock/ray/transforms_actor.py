"""The actor that calls the user's function, and the form in which results travel."""

from __future__ import annotations

import os
import pickle
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
import ray.util
from ray import cloudpickle

from penstock import errors
from penstock.client import Client
from penstock.stepreader import StepReader
from penstock.turns import Start


class Answer(NamedTuple):
    """What an actor says of a step, apart from the result.

    Attributes:
        cursor: the stream's position after the step, or at its end.
        ended: whether the stream ended before the step.
        size: the bytes of the result.
        reading: the seconds that the actor waited for the batch.
        function: the seconds that the function took.
    """

    cursor: dict[str, Any]
    ended: bool
    size: int
    reading: float
    function: float


def packed(value: Any) -> list[Any]:
    """Returns a value as a pickle, followed by the buffers of its arrays, which Ray copies once and maps."""
    buffers: list[pickle.PickleBuffer] = []
    head = cloudpickle.dumps(value, protocol=5, buffer_callback=buffers.append)
    return [pa.py_buffer(head), *(pa.py_buffer(buffer.raw()) for buffer in buffers)]


def unpacked(parts: Sequence[Any]) -> Any:
    """Returns the value of `packed`; its arrays are those of the parts."""
    return pickle.loads(parts[0], buffers=parts[1:])


class Transformer:
    """Reads its turns of a stream, and makes a result of each batch."""

    def __init__(self, connect: Callable[[], Client], function: Any) -> None:
        """Prepares nothing, so that every failure is that of a call.

        Args:
            connect: creates the client, on the actor's node.
            function: called with each batch; or a class whose instance is, created once.
        """
        self._connect = connect
        self._function = function

    def prepare(self) -> str:
        """Creates the client, and the instance if the function is a class. Returns where the actor runs."""
        self._reader = StepReader(self._connect())
        if isinstance(self._function, type):
            self._function = self._function()
        return f"process {os.getpid()} on {ray.util.get_node_ip_address()}"

    def make(self, step: int, opening: tuple[Mapping[str, Any], Start] | None) -> tuple[Answer, list[Any]]:
        """Makes the result of a step. Ray stores the two values that it returns apart.

        Args:
            step: the step's number.
            opening: the query and where to open its stream first; None to read on.
        """
        began = time.monotonic()
        if opening is not None:
            self._reader.open(*opening)
        batch = self._reader.read(step)
        read = time.monotonic()
        if batch is None:
            return Answer(self._reader.cursor, True, 0, read - began, 0.0), []
        cursor = self._reader.cursor
        with errors.naming(f"step {step}"):
            parts = packed(self._function(batch))
        size = sum(part.size for part in parts)
        return Answer(cursor, False, size, read - began, time.monotonic() - read), parts
