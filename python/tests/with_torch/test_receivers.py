"""Tensors that a receiver on the trainer's host makes of a remote server's batches."""

from __future__ import annotations

import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from lake import Row
from local_host import Host
from proxy import Proxy
from receiver_processes import kill_receivers, receivers_in, until_gone
from server import BINARY, Server
from test_rings import in_ring, same
from test_streams import ROWS, RULES, WIRES, Wire, number, rows_of, written
from torch.utils.data import DataLoader

import penstock
from penstock import receivers
from penstock.messages import Messages
from penstock.torch import Batch, Converter, IterableDataset

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="memory can be passed to other processes only on Linux"
)


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Row]]:
    return written(tmp_path_factory.mktemp("receivers"))


@pytest.fixture(scope="module")
def server(tables: tuple[Path, list[Row]]) -> Iterator[Server]:
    with Server(tables[0]) as server:
        yield server


@pytest.fixture(autouse=True)
def program(folders: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of the folders of receivers, whose program is on the PATH. In the end, nothing uses a receiver."""
    monkeypatch.setenv("PATH", str(BINARY.parent), prepend=":")
    yield folders
    receivers.leave()


def dataset(server: Server, **options: Any) -> IterableDataset[Batch]:
    return IterableDataset(server.address, "d", **{"batch_rows": 160, "lanes": 2, **RULES, **options})


# spec: receiver-1, receiver-8
@pytest.mark.parametrize("wire", [*WIRES, None])
@pytest.mark.parametrize("order", ["stored", "shuffled"])
def test_blocks_are_the_tensors_of_the_converter(
    server: Server, tables: tuple[Path, list[Row]], wire: Wire | None, order: str
) -> None:
    form: dict[str, Any] = {"order": order} if wire is None else {"wire": wire, "order": order}
    if order == "shuffled":
        form["seed"] = 3
    with (
        penstock.connect(server.address) as client,
        client.read("d", batch_rows=160, lanes=2, **form) as stream,
    ):
        convert = Converter(stream.schema, **RULES)
        expected = []
        for records in stream:
            assert isinstance(stream.cursor, dict)
            expected.append(convert(records, cursor=stream.cursor, step=stream.cursor["step"] - 1))
    rows = []
    made = dataset(server, **form)
    for batch, other in zip(made, expected, strict=True):
        assert made.stats().way == "receiver", made.stats().why
        assert all(in_ring(tensor) for tensor in batch.tensors() if tensor.numel())
        same(batch, other)
        assert (batch.rows, batch.cursor, batch.step) == (other.rows, other.cursor, other.step)
        rows += rows_of(batch.expand())
    assert len(rows) == ROWS
    assert sorted(rows, key=lambda row: row["row"]) == [number(row) for row in tables[1]]


def rows_in(data: IterableDataset[Batch]) -> list[int]:
    return sorted(row for batch in data for row in batch["row"].tolist())


# spec: receiver-1
def test_a_server_on_the_host_needs_no_receiver(tables: tuple[Path, list[Row]], program: Path) -> None:
    with Host(tables[0], program) as host:
        for local, way in ((True, "ring"), (False, "network")):
            data = IterableDataset(host.server.address, "d", local=local, **RULES)
            assert rows_in(data) == list(range(ROWS))
            assert (data.stats().way, data.stats().why) == (way, "" if local else "local=False")
            assert not receivers_in(program)
    for left in program.iterdir():  # of the host
        (left / "local.sock").unlink(missing_ok=True)
        left.rmdir()


# spec: receiver-1, local-23
def test_the_socket_of_another_server_is_not_used(tables: tuple[Path, list[Row]], program: Path) -> None:
    with Host(tables[0], program) as remote:
        remote.socket.rename(program / "elsewhere")  # as if it were on another host
        with Server(remote.config, "--local-socket", str(remote.socket)):
            data = IterableDataset(remote.server.address, "d", **RULES)
            assert rows_in(data) == list(range(ROWS))
            assert data.stats().way == "receiver"
            with remote.connect() as client, client.read("d") as stream:
                assert sum(batch.num_rows for batch in stream) == ROWS
                assert stream.stats.way == "network"
    remote.socket.unlink()
    remote.socket.parent.rmdir()
    (program / "elsewhere").unlink()


# spec: receiver-12
def test_without_a_receiver_the_training_process_reads(
    server: Server, program: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = program / "bin"
    folder.mkdir()
    reasons = {"no program penstock": None, "is penstock 0": "echo penstock 0", "no room": ""}
    for why, line in reasons.items():
        monkeypatch.setenv("PATH", str(folder) if line is None else f"{folder}:/usr/bin:/bin")
        if line is not None:
            version = line or f"echo penstock {penstock.__version__}"
            start = 'echo "penstock: no room" >&2; exit 1'
            (folder / "penstock").write_text(
                f'#!/bin/sh\nif [ "$1" = version ]; then {version}; else {start}; fi\n'
            )
            (folder / "penstock").chmod(0o755)
        data = dataset(server)
        assert rows_in(data) == list(range(ROWS))
        assert data.stats().way == "network"
        assert why in data.stats().why
        receivers.leave()
    (folder / "penstock").unlink()
    folder.rmdir()


# spec: receiver-11
def test_killed_receivers_neither_lose_nor_duplicate_rows(server: Server, program: Path) -> None:
    rng, kills = random.Random(7), 0
    data = dataset(server, batch_rows=20, prefetch=0, reconnect=60.0, order="shuffled", seed=5)
    expected = [
        batch["row"].tolist()
        for batch in dataset(server, batch_rows=20, order="shuffled", seed=5, local=False)
    ]
    for _ in range(4):
        found = []
        for batch in data:
            found.append(batch["row"].tolist())
            if rng.random() < 0.1:
                kills += kill_receivers(program)
        assert found == expected
    assert kills > 5
    assert data.stats().way == "receiver"


# spec: receiver-11
@pytest.mark.parametrize("by", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_killed_receiver_is_replaced_even_without_retries(
    server: Server, program: Path, by: signal.Signals
) -> None:
    rows: list[int] = []
    data = dataset(server, batch_rows=20, prefetch=0, reconnect=0.0)
    for batch in data:
        rows += batch["row"].tolist()
        if batch.step in (3, 30):
            [receiver] = receivers_in(program)
            os.kill(receiver, by)
    assert sorted(rows) == list(range(ROWS))
    assert data.stats().way == "receiver"


# spec: receiver-11
def test_a_killed_receiver_is_replaced_for_all_its_streams(server: Server, program: Path) -> None:
    made = [dataset(server, batch_rows=20, prefetch=0, reconnect=0.0) for _ in range(2)]
    streams = [iter(data) for data in made]
    rows = [next(stream)["row"].tolist() for stream in streams]
    assert kill_receivers(program) == 1
    for data, stream, found in zip(made, streams, rows, strict=True):  # the first one starts another receiver
        for batch in stream:
            found += batch["row"].tolist()
        assert sorted(found) == list(range(ROWS))
        assert data.stats().way == "receiver"


def test_a_stream_resumes_through_the_receiver_after_its_connection_broke(server: Server) -> None:
    """The dataset plans over the first connection, and the receiver reads over the second one."""
    with Proxy(server.address, (1 << 30, 60_000)) as proxy:
        data = IterableDataset(proxy.address, "d", batch_rows=20, lanes=2, reconnect=60.0, **RULES)
        assert rows_in(data) == list(range(ROWS))
        assert proxy.cuts == 1
    assert (data.stats().resumed, data.stats().way) == (1, "receiver")


# spec: local-25, receiver-14
@pytest.mark.parametrize("reconnect", [0.0, 60.0])
def test_no_loop_waits_for_a_suspended_receiver(
    server: Server, program: Path, monkeypatch: pytest.MonkeyPatch, reconnect: float
) -> None:
    monkeypatch.setattr("penstock.sessionsocket.TIMEOUT", 2)
    rows: list[int] = []
    data = dataset(server, batch_rows=20, prefetch=0, reconnect=reconnect)
    for batch in data:
        rows += batch["row"].tolist()
        if batch.step == 3:
            [receiver] = receivers_in(program)
            os.kill(receiver, signal.SIGSTOP)
    assert sorted(rows) == list(range(ROWS))
    assert data.stats().way == "network"
    assert "has not answered" in data.stats().why
    assert rows_in(dataset(server)) == list(range(ROWS))
    os.kill(receiver, signal.SIGCONT)
    data = dataset(server)
    assert rows_in(data) == list(range(ROWS))
    assert data.stats().way == "receiver"


class Rank:
    """A process that reads through a receiver."""

    def __init__(self, server: Server, rank: int, world: int) -> None:
        script = Path(__file__).with_name("received_rank.py")
        self.process = subprocess.Popen(
            [sys.executable, str(script), server.address, str(rank), str(world)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def next(self) -> str:
        assert self.process.stdin is not None
        self.process.stdin.write("next\n")
        self.process.stdin.flush()
        return self.line()


# spec: receiver-2, receiver-13
def test_ranks_share_a_receiver_until_the_last_one_ends(server: Server, program: Path) -> None:
    ranks = [Rank(server, rank, 4) for rank in range(4)]
    try:
        assert [rank.line() for rank in ranks] == ["receiver"] * 4
        [one] = receivers_in(program)
        assert rings_of(one) == 4
        ranks[1].process.kill()  # a rank that is killed gives its ring back
        ranks[1].process.wait()
        until(lambda: rings_of(one) == 3)
        assert [rank.next() for rank in (ranks[0], ranks[2], ranks[3])] == ["receiver"] * 3
        rows = 0
        for rank in (ranks[0], ranks[2]):
            assert rank.process.stdin is not None
            rank.process.stdin.close()
            rows += int(rank.line())
            rank.process.wait()
        assert 0 < rows < ROWS
        assert receivers_in(program) == [one]
    finally:
        for rank in ranks:
            rank.process.kill()
            rank.process.wait()
            assert rank.process.stdin is not None
            assert rank.process.stdout is not None
            rank.process.stdin.close()
            rank.process.stdout.close()
    until_gone(program)


def rings_of(receiver: int) -> int:
    """The number of rings of a receiver."""
    maps = Path(f"/proc/{receiver}/maps").read_text().splitlines()
    return sum("memfd:penstock-segment" in line for line in maps)


def until(holds: Any) -> None:
    limit = time.monotonic() + 30
    while not holds():
        assert time.monotonic() < limit
        time.sleep(0.01)


# spec: receiver-2
@pytest.mark.parametrize("start", ["fork", "spawn"])
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_workers_share_a_receiver(server: Server, program: Path, start: str) -> None:
    data = dataset(server, batch_rows=20)
    assert data.plan().rows == ROWS
    seen = set()
    for _ in range(2):
        loader = DataLoader(data, batch_size=None, num_workers=2, multiprocessing_context=start)
        rows = []
        for batch in loader:
            rows += batch["row"].tolist()
            seen.add(tuple(receivers_in(program)))
        assert sorted(rows) == list(range(ROWS))
    assert {len(found) for found in seen} == {1}
    until_gone(program)


# spec: receiver-4, receiver-6
def test_tokens_are_those_of_the_call(tables: tuple[Path, list[Row]], tmp_path: Path) -> None:
    made = [
        json.loads(subprocess.check_output([BINARY, "token", "new", "--subject", name, "--json"]))
        for name in ("a", "b")
    ]
    tokens, file = tmp_path / "tokens", tmp_path / "token"
    tokens.write_text("".join(f"{one['line']}\n" for one in made))
    tokens.chmod(0o600)
    file.write_text(made[0]["token"])
    with Server(tables[0], "--tokens", str(tokens)) as server:
        data = dataset(server, token_file=str(file), prefetch=0)
        batches = iter(data)
        first = next(batches)["row"].tolist()
        assert data.stats().way == "receiver"
        file.write_text("wrong")
        with pytest.raises(penstock.Unauthenticated, match="the token is unknown"):
            next(iter(dataset(server, token_file=str(file))))
        file.write_text(made[1]["token"])
        assert rows_in(dataset(server, token_file=str(file))) == list(range(ROWS))
        assert sorted(first + [row for batch in batches for row in batch["row"].tolist()]) == list(
            range(ROWS)
        )


# spec: receiver-6
def test_errors_are_those_of_the_server(server: Server) -> None:
    rules = {**RULES, "vocab": {"country": ["de"]}, "nulls": {**RULES["nulls"], "country": "error"}}
    said = []
    for local in (True, False):
        with pytest.raises(penstock.errors.Invalid, match="country") as e:
            list(dataset(server, local=local, **rules))
        said.append(str(e.value))
    assert said[0] == said[1]


# spec: receiver-7
def test_a_loop_may_keep_all_batches(server: Server) -> None:
    data = dataset(server, batch_rows=100)
    kept = list(data)
    assert 1 <= sum(in_ring(batch["row"]) for batch in kept) < len(kept)
    assert sorted(row for batch in kept for row in batch["row"].tolist()) == list(range(ROWS))
    assert "receiver" in data.stats().why


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_other_users_cannot_use_a_receiver(server: Server, program: Path) -> None:
    next(iter(dataset(server)))
    [folder] = program.glob("penstock-*")
    assert folder.stat().st_mode & 0o777 == 0o700
    for name, kind in (("server.sock", socket.SOCK_STREAM), ("local.sock", socket.SOCK_SEQPACKET)):
        assert (folder / name).stat().st_mode & 0o777 == 0o600
        code = (
            "import os, socket, sys\nos.setuid(65534)\n"
            f"one = socket.socket(socket.AF_UNIX, {int(kind)})\n"
            f"try: one.connect({str(folder / name)!r})\nexcept PermissionError: sys.exit(0)\nsys.exit(1)\n"
        )
        assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_epochs_of_a_repeated_stream_come_as_blocks(server: Server) -> None:
    data = dataset(server, repeat=3)
    ways = [(batch.rows, data.stats().way) for batch in data]
    assert sum(rows for rows, _ in ways) == 3 * ROWS
    assert {way for _, way in ways} == {"receiver"}


def test_a_process_may_stop_using_its_receivers(server: Server, program: Path) -> None:
    assert rows_in(dataset(server)) == list(range(ROWS))
    assert len(receivers_in(program)) == 1
    receivers.leave()
    assert not receivers_in(program)


# spec: receiver-10
def test_a_stream_that_a_receiver_refused_uses_it_when_it_is_opened_again(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after an outage, in which the receiver does not reach the servers either."""
    receive, read = Messages._next_block, Messages._next_message
    refusals, losses = [True], [True]

    def refused(messages: Messages) -> Any:
        if messages.receives and refusals and refusals.pop():
            monkeypatch.setattr(messages._call, "refusal", "no memory")
            raise penstock.Unavailable("no memory")
        return receive(messages)

    def lost(messages: Messages) -> Any:
        if messages.batches == 3 and losses and losses.pop():
            raise penstock.Unavailable("the connection was lost")
        return read(messages)

    monkeypatch.setattr(Messages, "_next_block", refused)
    monkeypatch.setattr(Messages, "_next_message", lost)
    data = dataset(server, batch_rows=20, prefetch=0, reconnect=60.0)
    rows, ways = [], []
    for batch in data:
        rows += batch["row"].tolist()
        ways.append((data.stats().way, data.stats().why))
    assert sorted(rows) == list(range(ROWS))
    assert ways == [("network", "no memory")] * 3 + [("receiver", "")] * (ROWS // 20 - 3)


# spec: receiver-10
def test_a_stream_that_the_receiver_refuses_is_read_from_the_server(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.channel._SERVER_HEADER", "x-server")
    data = dataset(server, reconnect=0.0)
    assert rows_in(data) == list(range(ROWS))
    assert data.stats().way == "network"
    assert "was not started for" in data.stats().why
