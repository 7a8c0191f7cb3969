"""Servers and receivers that are killed between two messages of a session for blocks."""

from __future__ import annotations

import itertools
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from lake import Row
from local_host import Host
from receiver_processes import kill_receivers
from server import BINARY, Server
from test_streams import ROWS, RULES, written
from traps import STEP, Trap

from penstock import receivers
from penstock.torch import Batch, IterableDataset

pytestmark = [
    pytest.mark.usefixtures("in_order"),
    pytest.mark.skipif(
        sys.platform != "linux", reason="memory can be passed to other processes only on Linux"
    ),
]


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Row]]:
    return written(tmp_path_factory.mktemp("handshakes"))


@pytest.fixture
def program(folders: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of the folders of receivers, whose program is on the PATH. In the end, nothing uses a receiver."""
    monkeypatch.setenv("PATH", str(BINARY.parent), prepend=":")
    yield folders
    receivers.leave()


def rows_of(*addresses: str, **options: Any) -> list[int]:
    data: IterableDataset[Batch] = IterableDataset(
        list(addresses), "d", **{"batch_rows": ROWS // 3, **RULES, **options}
    )
    return [row for batch in data for row in batch["row"].tolist()]


def at_each_place(read: Callable[[ExitStack], tuple[Callable[[], list[int]], Callable[[], object]]]) -> None:
    """Reads rows while something is killed at one place after the other."""
    want: list[int] | None = None
    for nth in itertools.count(0, STEP):  # at the place 0, nothing is killed
        with ExitStack() as stack, pytest.MonkeyPatch.context() as patch:
            rows, kill = read(stack)
            trap = Trap(patch, nth, kill)
            got = rows()
        want = want or got
        assert got == want, trap.passed[:nth]
        if len(trap.passed) < nth:
            break
    assert want is not None
    assert sorted(want) == list(range(ROWS))
    assert nth > 20, "few messages were seen"


# spec: local-15, local-21
def test_a_server_that_makes_blocks_is_killed(tables: tuple[Path, list[Row]]) -> None:
    with tempfile.TemporaryDirectory() as sockets, Host(tables[0], Path(sockets)) as second:

        def read(stack: ExitStack) -> tuple[Callable[[], list[int]], Callable[[], object]]:
            first = stack.enter_context(Host(tables[0], Path(sockets)))
            return lambda: rows_of(first.server.address, second.server.address), first.server.kill

        at_each_place(read)


# spec: receiver-8, receiver-11
def test_a_server_behind_a_receiver_is_killed(tables: tuple[Path, list[Row]], program: Path) -> None:
    assert program.exists()
    with Server(tables[0]) as second:

        def read(stack: ExitStack) -> tuple[Callable[[], list[int]], Callable[[], object]]:
            first = stack.enter_context(Server(tables[0]))
            stack.callback(receivers.leave)
            return lambda: rows_of(first.address, second.address), first.kill

        at_each_place(read)


# spec: receiver-8, receiver-11
def test_a_receiver_is_killed(tables: tuple[Path, list[Row]], program: Path) -> None:
    with Server(tables[0]) as server:

        def read(stack: ExitStack) -> tuple[Callable[[], list[int]], Callable[[], object]]:
            stack.callback(receivers.leave)
            return lambda: rows_of(server.address), lambda: kill_receivers(program)

        at_each_place(read)
