"""Batches in mapped memory equal those that come over the network, and nothing changes them."""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import gc
import itertools
import os
import resource
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import lake
import pyarrow as pa
import pytest
from local_host import Host, mapped

import penstock
from penstock import local, mappedfile

pytestmark = [
    pytest.mark.skipif(
        sys.platform != "linux", reason="memory can be passed to other processes only on Linux"
    ),
    pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning"),
]

ROWS = 4000
REQUESTS = 100


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return lake.scored(tmp_path_factory.mktemp("local"), 7, ROWS, REQUESTS, files=2)


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """A folder whose path is short enough for a socket; pytest's own are long."""
    with tempfile.TemporaryDirectory() as path:
        yield Path(path)


LENT, FREE = (f'penstock_mapped_memory_bytes{{state="{state}"}}' for state in ("lent", "free"))
SMALLEST = 64 << 10  # bytes of a segment


@pytest.fixture(scope="module")
def host(config: Path, folder: Path) -> Iterator[Host]:
    with Host(config, folder) as host:
        yield host


def read(client: penstock.Client, **query: Any) -> tuple[list[pa.RecordBatch], list[Any], dict[str, Any]]:
    """All batches, the cursors after them, and the report without times."""
    stream = client.read("d", **query)
    batches, cursors = [], []
    for batch in stream:
        batches.append(batch)
        cursors.append(stream.cursor)
    report = {name: value for name, value in (stream.report or {}).items() if name != "bytes_shared"}
    return batches, cursors, report


# spec: local-7, local-14
@pytest.mark.parametrize("wire", ["plain", "indexed", None])
def test_mapped_batches_equal_those_of_the_network(host: Host, wire: str | None) -> None:
    query: dict[str, Any] = {
        "batch_rows": 256,
        "lanes": 2,
        "cache": "off",
        **({} if wire is None else {"wire": wire}),
    }
    with host.connect() as near, host.connect(local=False) as far:
        got, want = read(near, **query), read(far, **query)
    assert len(got[0]) == ROWS // 256 + 1
    for one, other in zip(got[0], want[0], strict=True):
        one.validate(full=True)
        assert one.schema.equals(other.schema)
        assert one.equals(other)
    assert got[1] == want[1]
    assert got[2] == want[2]
    if wire is not None:  # the columns that are expanded here are copies
        assert all(mapped(batch) for batch in got[0])
    assert not any(mapped(batch) for batch in want[0])


def test_returned_memory_is_used_again(config: Path, folder: Path) -> None:
    with Host(config, folder, "--share-batches", "0") as host, host.connect() as client:
        for batch in client.read("d", wire="plain", batch_rows=50):
            assert mapped(batch)
            assert host.metric(LENT) <= 10 * SMALLEST
        del batch
        host.waits_for(LENT, 0)
        host.waits_for("penstock_local_sessions", 0)
        assert 0 < host.metric(FREE) <= 10 * SMALLEST


def test_kept_batches_stay_and_later_ones_come_over_the_network(config: Path, folder: Path) -> None:
    with (
        Host(config, folder, "--memory", "64MiB") as host,
        host.connect() as near,
        host.connect(local=False) as far,
    ):
        got, want = read(near, wire="plain", batch_rows=10)[0], read(far, wire="plain", batch_rows=10)[0]
        assert 100 < sum(map(mapped, got)) < len(got)  # 128 of the least size fit in an eighth of the memory
        assert all(a.equals(b) for a, b in zip(got, want, strict=True))
        assert host.metric(LENT) > 0
        del got
        gc.collect()
        host.waits_for(LENT, 0)


def test_batches_stay_readable_after_the_server_was_killed(config: Path, folder: Path) -> None:
    with Host(config, folder) as host, host.connect(reconnect=0) as client, host.connect(local=False) as far:
        want = read(far, wire="plain", batch_rows=100)[0]
        stream = client.read("d", wire="plain", batch_rows=100)
        got = [next(stream) for _ in range(3)]
        host.server.kill()
        with pytest.raises(penstock.Unavailable):
            got.extend(stream)
        assert all(mapped(batch) for batch in got)
        assert all(a.equals(b) for a, b in zip(got, want[: len(got)], strict=True))


# spec: local-15
def test_stream_resumes_when_its_session_ends(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    sessions: list[local.Session] = []
    opened = local.Session.open

    def remember(path: str, plan: bytes | None) -> local.Session | None:
        session = opened(path, plan)
        assert session is not None
        sessions.append(session)
        return session

    monkeypatch.setattr(local.Session, "open", staticmethod(remember))
    with host.connect() as near, host.connect(local=False) as far:
        want = read(far, wire="plain", batch_rows=100)[0]
        stream = near.read("d", wire="plain", batch_rows=100)
        got = [next(stream) for _ in range(5)]
        connection = sessions[0]._socket._connection
        assert connection is not None
        connection.shutdown(2)
        got.extend(stream)
        assert all(a.equals(b) for a, b in zip(got, want, strict=True))


# spec: local-11, local-14
def test_writes_stay_in_their_process(host: Host) -> None:
    np = pytest.importorskip("numpy")
    with host.connect() as near, host.connect() as other, host.connect(local=False) as far:
        want = read(far, wire="plain", batch_rows=500)[0]
        first, second = (
            near.read("d", wire="plain", batch_rows=500),
            other.read("d", wire="plain", batch_rows=500),
        )
        for i, (mine, theirs) in enumerate(zip(first, second, strict=True)):
            assert mapped(mine)
            column = mine.column(mine.schema.get_field_index("row"))
            address = column.buffers()[1].address
            writable = np.ctypeslib.as_array((ctypes.c_int64 * len(column)).from_address(address))
            writable[:] = -1
            assert column.to_pylist() == [-1] * len(column)
            assert theirs.equals(want[i])


# spec: local-14
def test_child_of_a_fork_sees_no_change(host: Host) -> None:
    with host.connect() as client, host.connect(local=False) as far:
        want = read(far, wire="plain", batch_rows=100)[0]
        stream = client.read("d", wire="plain", batch_rows=100)
        held = [next(stream) for _ in range(3)]
        assert all(map(mapped, held))
        before, after = os.pipe()
        child = os.fork()
        if child == 0:
            os.read(before, 1)
            same = all(a.equals(b) for a, b in zip(held, want[:3], strict=True))
            os._exit(0 if same else 1)
        del held
        gc.collect()
        rest = list(stream)  # which uses the memory that is free
        for _ in range(3):
            read(client, batch_rows=100)
        os.write(after, b"x")
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert all(a.equals(b) for a, b in zip(rest, want[3:], strict=True))
        del rest
        os.close(before)
        os.close(after)


def test_finalizers_of_a_child_return_nothing(config: Path, folder: Path) -> None:
    """A child of C code, whose fork calls no hook of Python, ends with its finalizers."""
    libc = ctypes.PyDLL(None)
    with Host(config, folder, "--share-batches", "0") as host, host.connect() as client:
        with host.connect(local=False) as far:
            want = read(far, wire="plain", batch_rows=100)[0]
        stream = client.read("d", wire="plain", batch_rows=100)
        held = [next(stream) for _ in range(5)]
        child = libc.fork()
        if child == 0:
            held.clear()
            gc.collect()
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        list(stream)
        read(client, wire="plain", batch_rows=100)
        assert all(a.equals(b) for a, b in zip(held, want[:5], strict=True))


def test_interrupted_forks_hold_no_lock_and_change_no_batch(
    config: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python continues with a fork if a signal handler raises in a hook."""
    calls = itertools.count()
    before_fork = local.Session.before_fork

    def interrupted(session: local.Session) -> None:
        if next(calls) == 1:
            raise KeyboardInterrupt
        before_fork(session)

    with Host(config, folder, "--share-batches", "0") as host, host.connect() as client:
        with host.connect(local=False) as far:
            want = read(far, wire="plain", batch_rows=100)[0]
        streams = [client.read("d", wire="plain", batch_rows=100) for _ in range(3)]
        held = [[next(stream) for _ in range(3)] for stream in streams]
        monkeypatch.setattr(local.Session, "before_fork", interrupted)
        monkeypatch.setattr(sys, "unraisablehook", lambda _: None)
        before, after = os.pipe()
        child = os.fork()
        if child == 0:
            os.read(before, 1)
            same = all(a.equals(b) for kept in held for a, b in zip(kept, want[:3], strict=True))
            os._exit(0 if same else 1)
        monkeypatch.undo()
        with ThreadPoolExecutor(1) as pool:
            assert len(pool.submit(read, client, wire="plain").result(timeout=30)[0]) > 0
        held.clear()
        gc.collect()
        rest = [list(stream) for stream in streams]
        os.write(after, b"x")
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        for batches in rest:
            assert all(a.equals(b) for a, b in zip(batches, want[3:], strict=True))
        os.close(before)
        os.close(after)


def close_after(stream: penstock.Stream, seconds: float) -> None:
    time.sleep(seconds)
    stream.close()


def test_closing_from_another_thread_is_not_corruption(host: Host) -> None:
    with host.connect(reconnect=0) as client, ThreadPoolExecutor(1) as pool:
        for n in range(20):
            stream = client.read("d", wire="plain", batch_rows=20)
            next(stream)
            closing = pool.submit(close_after, stream, n / 4000)
            with contextlib.suppress(penstock.Unavailable, penstock.Invalid, StopIteration):
                while True:
                    next(stream)
            closing.result()


def test_many_kept_streams_do_not_use_up_the_open_files(host: Host) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    opened = len(list(Path("/proc/self/fd").iterdir()))
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, opened + 512), hard))
    try:
        with host.connect() as client:
            kept = [read(client, wire="plain", batch_rows=20)[0] for _ in range(6)]
        assert all(sum(batch.num_rows for batch in batches) == ROWS for batches in kept)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.parametrize(
    ("message", "content"),
    [
        ({"delivery": 1}, b""),
        ({"delivery": "1", "bytes": 8}, b""),
        ({"delivery": 1, "bytes": -8}, b""),
        ({"delivery": 1 << 80, "bytes": 8}, b""),
        ({"delivery": 2, "bytes": 8}, b""),
        ({"delivery": 1, "bytes": 1 << 40}, b""),
        ({"delivery": 1, "bytes": 80}, b""),
        ({"delivery": 1, "bytes": 4096}, pa.schema([("a", pa.int64())]).serialize().to_pybytes()),
    ],
)
def test_malformed_deliveries_are_corrupt(message: dict[str, Any], content: bytes) -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    file = os.memfd_create("test", os.MFD_ALLOW_SEALING)
    os.ftruncate(file, 4096)
    os.pwrite(file, content, 0)
    fcntl.fcntl(file, fcntl.F_ADD_SEALS, mappedfile._SEALS)
    with theirs:
        socket.send_fds(theirs, [struct.pack("<I", 1)], [file])
        session = local.Session(ours, "id")
        with pytest.raises((penstock.Corrupt, pa.ArrowInvalid)):
            session.batch(message, pa.schema([("a", pa.int64())]))
    os.close(file)


@pytest.mark.parametrize(
    "packet",
    [
        b"too short",
        struct.pack("<IIQQIIQ", 9, 1, 0, 256, 2, 10, 1),  # of an unknown kind
        struct.pack("<IIQQIIQ", 2, 1, 0, 256, 2, 10, 1),  # in a ring that was not passed
    ],
)
def test_files_of_wrong_packets_are_closed(packet: bytes) -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    file = os.memfd_create("test")
    with theirs:
        socket.send_fds(theirs, [packet], [file])
        os.close(file)
        session = local.Session(ours, "id")
        opened = sorted(Path("/proc/self/fd").iterdir())
        with pytest.raises(penstock.Corrupt):
            session.block()
        assert sorted(Path("/proc/self/fd").iterdir()) == opened


def test_killed_clients_free_their_memory(host: Host) -> None:
    gc.collect()
    host.waits_for(LENT, 0)
    program = (
        "import penstock, sys, time\n"
        f"stream = penstock.connect({host.server.address!r}).read('d', wire='plain', batch_rows=100)\n"
        "kept = [next(stream) for _ in range(20)]\n"
        "print(len(kept), flush=True)\n"
        "time.sleep(60)\n"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as client:
        assert client.stdout is not None
        assert client.stdout.readline() == "20\n"
        assert host.metric(LENT) >= 20 * SMALLEST
        client.send_signal(signal.SIGKILL)
        client.wait()
        host.waits_for(LENT, 0, seconds=5)


def test_reports_do_not_wait_for_the_server() -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        session = local.Session(ours, "id")
        began = time.monotonic()
        reports = 0
        while not session._socket._pending:  # until the socket is full
            reports += 1
            session.returned(reports)
        session.returned(reports + 1)
        assert time.monotonic() - began < 5, "a report has waited"
        got: list[tuple[int, ...]] = []
        while len(got) < reports + 2:
            got += struct.iter_unpack("<II", theirs.recv(4096))
            if len(got) == reports - 1:
                session.returned(reports + 2)
        assert got == [(2, number) for number in range(1, reports + 3)]


def test_reports_about_blocks_are_sent_together_and_before_the_server_waits_for_them() -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    packet = struct.Struct("<IIQQIIQ")

    def reports() -> list[tuple[int, ...]]:
        return list(struct.iter_unpack("<II", theirs.recv(4096, socket.MSG_DONTWAIT)))

    def nothing() -> bool:
        try:
            return not reports()
        except BlockingIOError:
            return True

    with theirs:
        file = os.memfd_create("ring", os.MFD_ALLOW_SEALING)
        os.ftruncate(file, 8 * 4096)
        fcntl.fcntl(file, fcntl.F_ADD_SEALS, 0x0002)  # F_SEAL_SHRINK
        socket.send_fds(theirs, [packet.pack(1, 1, 0, 256, 2, 10, 1)], [file])
        os.close(file)
        for number in (2, 3, 4):  # with these, the server waits
            theirs.send(packet.pack(2, number, 4096 * (number - 1), 256, 2, 10, number))
        session = local.Session(ours, "id")
        blocks = [session.block() for _ in range(4)]
        assert [block.num_rows for block in blocks if block is not None] == [10] * 4
        assert nothing()
        theirs.send(packet.pack(2, 5, 4 * 4096, 256, 2, 10, 5))
        blocks.append(session.block())
        assert reports() == [(1, 1), (1, 2), (1, 3), (1, 4)]
        del blocks[:2]
        assert nothing()
        del blocks[0]
        assert sorted(reports()) == [(1, 5), (2, 1), (2, 2), (2, 3)]
        del blocks[0]
        theirs.send(packet.pack(3, 0, 0, 0, 0, 0, 0))
        assert session.block() is None
        assert reports() == [(2, 4)]
        session.stop()
        del blocks[0]
        assert reports() == [(2, 5)]


def test_package_works_without_unix_modules() -> None:
    program = (
        "import asyncio, ssl, sys, pyarrow.compute, pyarrow.flight\n"
        "sys.platform = 'win32'; sys.modules['fcntl'] = None\n"
        "import penstock.local\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


# spec: local-1, local-2
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_other_users_get_no_session(host: Host) -> None:
    folder = host.socket.parent
    program = (
        "import os, sys\n"
        "from penstock.local import Session\n"
        "os.setuid(65534)\n"
        f"sys.exit(Session.open({str(host.socket)!r}) is not None)\n"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
    assert folder.stat().st_mode & 0o777 == 0o700
    # If its folder and its mode did not keep them out, the server would.
    parent = folder.parent.stat().st_mode & 0o777
    try:
        for path, mode in ((folder.parent, 0o755), (folder, 0o755), (host.socket, 0o666)):
            path.chmod(mode)
        assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
    finally:
        for path, mode in ((host.socket, 0o600), (folder, 0o700), (folder.parent, parent)):
            path.chmod(mode)
