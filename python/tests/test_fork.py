"""Clients across a fork: they work on both sides, or fail at once."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Callable

import pyarrow.flight as flight
import pytest
from fake_server import ROWS

import penstock

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here"),
    pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning"),
]


def in_child(work: Callable[[], object]) -> int:
    """Runs work in a forked child. Returns 0 if it went well, and fails the test if it hangs."""
    child = os.fork()
    if child == 0:
        try:
            work()
        except BaseException as e:
            print(repr(e), file=sys.stderr, flush=True)
            os._exit(1)
        os._exit(0)
    limit = time.monotonic() + 60
    while time.monotonic() < limit:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    pytest.fail("the forked child hangs")


@pytest.mark.parametrize("attempt", range(5))
def test_child_and_parent_keep_working_after_a_fork(fake: penstock.Client, attempt: int) -> None:  # noqa: ARG001
    assert fake.read("good").read_all().num_rows == ROWS
    dropped = fake.read("good")
    next(dropped)
    del dropped

    def work() -> None:
        assert fake.read("good").read_all().num_rows == ROWS

    assert in_child(work) == 0
    assert fake.read("good").read_all().num_rows == ROWS


def test_an_open_stream_in_a_reference_cycle_is_collected(fake: penstock.Client) -> None:
    stream = fake.read("good")
    next(stream)
    cycle: list[object] = [stream]
    cycle.append(cycle)
    del stream, cycle

    def work() -> None:
        assert fake.read("good").read_all().num_rows == ROWS

    assert in_child(work) == 0
    assert fake.read("good").read_all().num_rows == ROWS


def test_an_open_client_of_another_library_makes_every_child_fail_at_once(
    fake: penstock.Client, fake_address: str
) -> None:
    other = flight.FlightClient(f"grpc://{fake_address}")
    stream = fake.read("good")
    assert stream.read_all().num_rows == ROWS
    next(iter(other.list_flights()))

    def work() -> None:
        with pytest.raises(penstock.Invalid, match="another connection"):
            fake.datasets()

    for _ in range(2):
        assert in_child(work) == 0
    other.close()


def test_stream_planned_before_and_read_after(fake: penstock.Client) -> None:
    stream = fake.read("good")

    def work() -> None:
        assert stream.read_all().num_rows == ROWS

    assert in_child(work) == 0
    assert stream.read_all().num_rows == ROWS


def test_open_stream_makes_the_child_fail_at_once(fake: penstock.Client) -> None:
    stream = fake.read("good")
    next(stream)

    def work() -> None:
        with pytest.raises(penstock.Invalid, match="forked"):
            next(stream)
        stream.close()
        with pytest.raises(penstock.Invalid, match="forked"):
            fake.datasets()
        with penstock.connect("127.0.0.1:1") as other, pytest.raises(penstock.Invalid, match="forked"):
            other.datasets()
        fake.close()

    assert in_child(work) == 0
    rest = stream.read_all()
    assert rest.num_rows == ROWS - 64


def _rows(client: penstock.Client) -> int:
    return int(client.read("good").read_all().num_rows)


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_multiprocessing(fake: penstock.Client, method: str) -> None:
    assert _rows(fake) == ROWS
    with multiprocessing.get_context(method).Pool(2) as pool:
        assert pool.map(_rows, [fake] * 4) == [ROWS] * 4
