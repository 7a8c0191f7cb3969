"""Private servers: they serve their owner and the processes that it forks, and end with it."""

from __future__ import annotations

import gc
import multiprocessing
import os
import resource
import signal
import stat
import subprocess
import sys
import time
from multiprocessing.connection import Connection
from pathlib import Path

import lake
import pytest
from server import BINARY

import penstock

ROWS = 500

pytestmark = [
    pytest.mark.usefixtures("folders"),
    pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning"),
]


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return lake.scored(tmp_path_factory.mktemp("private"), 6, ROWS, 50)


def rows_of(client: penstock.Client) -> int:
    return client.read("d").read_all().num_rows


def process_of(client: penstock.Client) -> int:
    """The process of the private server of a client."""
    assert client.settings.private is not None
    return client.settings.private.pid


# spec: private-1
def test_the_folder_is_for_this_user_and_goes_with_the_client(config: Path, folders: Path) -> None:
    with penstock.open(config, program=BINARY) as client:
        assert rows_of(client) == ROWS
        (folder,) = folders.iterdir()
        assert client.uri == f"grpc+unix://{folder}/server.sock"
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        assert "penstock serves" in (folder / "server.log").read_text()
    assert not folder.exists()
    with pytest.raises(penstock.Invalid, match="closed"):
        rows_of(client)


# spec: private-5
def test_two_private_servers_are_independent(config: Path) -> None:
    first = penstock.open(config, program=BINARY)
    with penstock.open(config, program=BINARY, settings={"memory": "64MiB", "log_level": "debug"}) as second:
        assert first.uri != second.uri
        first.close()
        first.close()
        assert rows_of(second) == ROWS


# spec: private-2
@pytest.mark.skipif(sys.platform != "linux", reason="processes are listed in /proc")
def test_the_server_is_gone_a_second_after_its_owner_is_killed(config: Path, folders: Path) -> None:
    """While processes that it forked live, and hold streams of it. One of three tries may be late on a busy machine, not all."""
    late = []
    for _ in range(3):
        began, gone = _kill_an_owner(config, folders)
        if gone - began <= 1.0:
            return
        late.append(gone - began)
    pytest.fail(f"the server was gone after {late} seconds")


def _kill_an_owner(config: Path, folders: Path) -> tuple[float, float]:
    """Returns when an owner was killed, and when its server had gone."""
    program = Path(__file__).with_name("private_owner.py")
    command = [sys.executable, str(program), str(BINARY), str(config), "4"]
    owner = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)
    try:
        assert owner.stdout is not None
        server = int(owner.stdout.readline())
        began = time.monotonic()
        owner.kill()
        owner.wait()
        while not _gone(server):
            assert time.monotonic() - began < 30
            time.sleep(0.01)
        gone = time.monotonic()
        assert not list(folders.iterdir())
        return began, gone
    finally:
        os.killpg(owner.pid, signal.SIGKILL)  # what it forked
        owner.wait()
        assert owner.stdout is not None
        owner.stdout.close()


def _gone(process: int) -> bool:
    """Whether a process has ended. It may be a zombie."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


# spec: private-3
@pytest.mark.parametrize(("method", "processes"), [("fork", 2), ("spawn", 1)])
def test_forked_and_spawned_processes_read_from_it(config: Path, method: str, processes: int) -> None:
    with penstock.open(config, program=BINARY) as client:
        with multiprocessing.get_context(method).Pool(processes) as pool:
            assert pool.map(rows_of, [client, client, client]) == [ROWS] * 3
        assert rows_of(client) == ROWS


# spec: private-3
def test_a_forked_child_does_not_end_the_server(config: Path) -> None:
    with penstock.open(config, program=BINARY) as client:
        child = os.fork()
        if child == 0:
            try:
                client.close()
                gc.collect()
            finally:
                os._exit(0)
        os.waitpid(child, 0)
        assert rows_of(client) == ROWS


# spec: private-4
def test_the_server_ends_when_nothing_uses_it(config: Path, folders: Path) -> None:
    stream = penstock.open(config, program=BINARY).read("d", batch_rows=10)
    gc.collect()
    assert sum(batch.num_rows for batch in stream) == ROWS
    del stream
    gc.collect()
    assert not list(folders.iterdir())


# spec: private-4
def test_the_server_ends_with_the_program_that_never_closes_it(config: Path, folders: Path) -> None:
    text = f"import penstock; client = penstock.open({str(config)!r}, program={str(BINARY)!r}); print(client.read('d').read_all().num_rows)"
    said = subprocess.run(
        [sys.executable, "-c", text], capture_output=True, text=True, check=True, timeout=60
    )
    assert said.stdout == f"{ROWS}\n"
    assert not list(folders.iterdir())


# spec: private-4
def test_the_server_ends_with_the_last_reference_to_its_client(config: Path, folders: Path) -> None:
    """The garbage collector might run much later, or in the middle of a training step."""
    gc.collect()
    gc.disable()
    try:
        client = penstock.open(config, program=BINARY)
        assert rows_of(client) == ROWS
        del client
        assert not list(folders.iterdir())
    finally:
        gc.enable()


def test_a_program_with_many_open_files_starts_a_server(config: Path) -> None:
    """Each batch in mapped memory is an open file, and select() supports no file beyond number 1,023."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 4096), hard))
    opened: list[int] = []
    try:
        while not opened or opened[-1] < 1100:
            opened.append(os.dup(0))
        with penstock.open(config, program=BINARY, share=False) as client:
            assert rows_of(client) == ROWS
    finally:
        for file in opened:
            os.close(file)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


# spec: private-6
@pytest.mark.parametrize("share", [False, True])
def test_no_call_to_the_address_waits_for_a_killed_server(config: Path, share: bool) -> None:
    """As in a training loop, whose dataset gets the address."""
    with (
        penstock.open(config, program=BINARY, share=share) as client,
        penstock.connect(client.uri) as named,
        named.read("d", batch_rows=10) as stream,
    ):
        next(stream)
        assert client.settings.private is not None
        os.kill(client.settings.private.pid, signal.SIGKILL)
        with pytest.raises(penstock.Unavailable, match="has ended by signal 9; its log ends"):
            named.plan("d")
        with pytest.raises(penstock.Unavailable, match="has ended by signal 9; its log ends"):
            stream.read_all()


def fail_at(address: str, pipe: Connection) -> None:
    """Reads a stream at an address, and sends what fails there once the server was killed: the stream, and a call."""
    with penstock.connect(address, reconnect=3600) as client, client.read("d", batch_rows=10) as stream:
        next(stream)
        pipe.send("reads")
        pipe.recv()
        for fails in (stream.read_all, lambda: client.plan("d")):
            try:
                fails()
            except penstock.Unavailable as e:
                pipe.send((e.final, e.remedy))


# spec: private-6
@pytest.mark.parametrize("share", [False, True])
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_no_other_process_waits_for_a_killed_server(config: Path, share: bool, method: str) -> None:
    """As in a DataLoader's workers, which have not opened the server."""
    with penstock.open(config, program=BINARY, share=share) as client:
        ours, theirs = multiprocessing.Pipe()
        child = multiprocessing.get_context(method).Process(target=fail_at, args=(client.uri, theirs))  # type: ignore[attr-defined]
        child.start()
        theirs.close()
        assert ours.recv() == "reads"
        os.kill(process_of(client), signal.SIGKILL)
        ours.send("killed")
        for final, remedy in (ours.recv(), ours.recv()):
            assert final
            assert "its private server has ended; its log ends:\n" in remedy
        child.join()
        ours.close()


# spec: private-6
@pytest.mark.parametrize("share", [False, True])
def test_the_address_of_a_server_that_was_closed(config: Path, share: bool) -> None:
    with penstock.open(config, program=BINARY, share=share) as client:
        address = client.uri
    with (
        penstock.connect(address, reconnect=3600) as named,
        pytest.raises(penstock.Unavailable, match="its private server has ended with its owner") as raised,
    ):
        rows_of(named)
    assert raised.value.final


# spec: private-6
def test_a_server_that_was_killed_is_not_waited_for(config: Path) -> None:
    with penstock.open(config, program=BINARY) as client:
        stream = client.read("d", batch_rows=10)
        next(stream)
        os.kill(process_of(client), signal.SIGKILL)
        with pytest.raises(
            penstock.Unavailable, match=r"has ended by signal 9; its log ends:\n.*penstock serves"
        ) as raised:
            for _ in stream:
                pass
        assert raised.value.final
        with pytest.raises(penstock.Unavailable, match="has ended by signal 9"):
            client.plan("d")


# spec: private-6
def test_a_server_that_does_not_start_says_why(tmp_path: Path, folders: Path) -> None:
    broken = tmp_path / "penstock.yaml"
    broken.write_text(
        "catalogs: {default: {type: sql, uri: 'sqlite:///catalog.db'}}\ndatasets: {d: {trainings: {table: a.b}, key: [k]}}\n"
    )
    with pytest.raises(
        penstock.Invalid, match=r"(?s)start a private server for .*penstock\.yaml: .*trainings: unknown field"
    ):
        penstock.open(broken, program=BINARY)
    with pytest.raises(penstock.Invalid, match=r"start a private server for none\.yaml: .*none\.yaml"):
        penstock.open("none.yaml", program=BINARY)
    with pytest.raises(penstock.Invalid, match="leave out --listen"):
        penstock.open(broken, program=BINARY, settings={"listen": "127.0.0.1:0"})
    with pytest.raises(
        penstock.Invalid, match=r"settings has no 'max_strems'; did you mean 'max_streams'\?$"
    ):
        penstock.open(broken, program=BINARY, settings={"max_strems": 4})
    with pytest.raises(penstock.Invalid, match=r"settings has no 'quux'$"):
        penstock.open(broken, program=BINARY, settings={"quux": "1GiB"})
    with pytest.raises(penstock.Invalid, match="config: must be the path"):
        penstock.open(None, program=BINARY)  # type: ignore[arg-type]
    assert not list(folders.iterdir())


def test_the_program_is_missing_or_another_one(
    config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(penstock.NotFound, match=r"no program penstock; .*PATH.*penstock\.connect"):
        penstock.open(config)
    with pytest.raises(penstock.NotFound, match="there is no program nowhere"):
        penstock.open(config, program="nowhere")
    other = tmp_path / "penstock"
    other.write_text("#!/bin/sh\necho penstock 9.9.9\n")
    other.chmod(0o755)
    with pytest.raises(
        penstock.Invalid, match=rf"is penstock 9\.9\.9, and this package is {penstock.__version__}"
    ):
        penstock.open(config)
    other.write_text("#!/bin/sh\necho 4.2\n")
    with pytest.raises(penstock.Invalid, match="is not Penstock's server"):
        penstock.open(config)
    other.unlink()
    other.symlink_to(BINARY)
    with penstock.open(config) as client:
        assert rows_of(client) == ROWS


# spec: private-7
def test_failures_name_both_versions_if_they_differ(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with penstock.open(config, program=BINARY) as client:
        with pytest.raises(penstock.Invalid) as raised:
            client.plan("d", columns=["nothing"])
        assert "install the same version" not in str(raised.value)
        monkeypatch.setattr("penstock.call.__version__", "9.9.9")
        with pytest.raises(
            penstock.Invalid,
            match=rf"the server is penstock {penstock.__version__}\S* and this package 9\.9\.9: install the same version of both",
        ):
            client.plan("d", columns=["nothing"])


def test_an_interrupt_from_the_terminal_is_not_for_the_server(config: Path) -> None:
    with penstock.open(config, program=BINARY) as client:
        assert os.getsid(process_of(client)) != os.getsid(0)
