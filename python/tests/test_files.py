"""Files that are whole or not there, and what else a path may name."""

from __future__ import annotations

import os
import socket
import stat
from pathlib import Path
from typing import BinaryIO

import pytest

import penstock
from penstock.files import write_atomically


def names(folder: Path) -> list[str]:
    return [entry.name for entry in folder.iterdir()]


def write(file: Path, content: bytes = b"new", *, replace: bool = True) -> bool:
    return write_atomically(file, lambda out: out.write(content), replace=replace)


# spec: output-1
def test_file_appears_when_it_is_complete(tmp_path: Path) -> None:
    file = tmp_path / "a"
    seen: list[str] = []

    def looks(out: BinaryIO) -> None:
        out.write(b"new")
        seen.extend(names(tmp_path))

    assert write_atomically(file, looks)
    assert len(seen) == 1
    assert "a" not in seen
    assert file.read_bytes() == b"new"
    assert names(tmp_path) == ["a"]
    assert not write(file, b"newer", replace=False)
    assert file.read_bytes() == b"new"


# spec: output-1
def test_a_failure_leaves_the_old_file_and_no_temporary_one(tmp_path: Path) -> None:
    file = tmp_path / "a"
    file.write_bytes(b"old")

    def half(out: BinaryIO) -> None:
        os.write(out.fileno(), b"half")
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        write_atomically(file, half)
    assert file.read_bytes() == b"old"
    assert names(tmp_path) == ["a"]


# spec: output-3
def test_other_than_regular_files_are_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    with socket.socket(socket.AF_UNIX) as listener, Path(os.devnull).open("wb") as device:
        listener.bind(str(tmp_path / "s"))
        # The path of the device is that of an open file: wrong code would replace the machine's /dev/null.
        for path in (tmp_path, tmp_path / "s", tmp_path / "fifo", Path("/dev/fd", str(device.fileno()))):
            with pytest.raises(penstock.Invalid, match=r"is not a regular file.*name a file"):
                write(path)
    assert sorted(names(tmp_path)) == ["fifo", "s"]


# spec: output-4
def test_links_are_kept(tmp_path: Path) -> None:
    files, links = tmp_path / "files", tmp_path / "links"
    (files / "deep").mkdir(parents=True)
    links.mkdir()
    (files / "old").write_bytes(b"old")
    (links / "folder").symlink_to(files / "deep")
    for name, to in (
        ("absolute", str(files / "old")),
        ("relative", "../files/old"),
        ("dangling", "../files/new"),
        ("through", "folder/../beside"),  # the parent of files/deep, not of links
    ):
        link = links / name
        link.symlink_to(to)
        assert write(link, name.encode())
        assert link.read_bytes() == name.encode()
        assert str(link.readlink()) == to
    assert sorted(names(files)) == ["beside", "deep", "new", "old"]
    assert names(files / "deep") == []
    (links / "later").symlink_to("../files/later")
    assert write(links / "later", replace=False)
    assert (files / "later").read_bytes() == b"new"


# spec: output-5
def test_owner_and_permissions_are_kept(tmp_path: Path) -> None:
    file = tmp_path / "a"
    file.write_bytes(b"old")
    file.chmod(0o660)
    owner = os.getuid() or 4711
    if os.getuid() == 0:
        os.chown(file, owner, owner)
    during: list[int] = []

    def looks(out: BinaryIO) -> None:
        during.append(os.fstat(out.fileno()).st_mode)

    before = file.stat()
    assert write_atomically(file, looks)
    assert stat.S_IMODE(during[0]) == 0o600, "half a file is no more open than the old one was"
    after = file.stat()
    assert after.st_ino != before.st_ino, "it is replaced, not written over"
    assert (after.st_mode, after.st_uid, after.st_gid) == (before.st_mode, before.st_uid, before.st_gid)
    fresh = tmp_path / "b"
    was = os.umask(0o027)
    try:
        write(fresh)
    finally:
        os.umask(was)
    assert stat.S_IMODE(fresh.stat().st_mode) == 0o640


def test_errors_name_the_file_of_the_user(tmp_path: Path) -> None:
    """And a name may be as long as the system allows."""
    longest = tmp_path / ("n" * 255)
    assert write(longest)
    assert longest.read_bytes() == b"new"
    longer = tmp_path / ("n" * 256)
    missing = tmp_path / "nowhere" / "a"
    for file in (longer, missing):
        with pytest.raises(OSError, match=r"too long|No such file") as e:
            write(file)
        assert e.value.filename == str(file)
        assert ".part" not in str(e.value)
    assert names(tmp_path) == [longest.name]


# spec: output-3
@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs /proc")
@pytest.mark.parametrize("folder", ["/dev/fd", "/proc/self/fd", "/proc/thread-self/fd", "link"])
def test_open_files_are_refused(tmp_path: Path, folder: str) -> None:
    file = tmp_path / "a"
    with file.open("wb") as opened:
        path = Path(folder, str(opened.fileno()))
        if folder == "link":  # like /dev/stdout
            path = tmp_path / "link"
            path.symlink_to(f"/proc/self/fd/{opened.fileno()}")
        with pytest.raises(penstock.Invalid, match="is not a regular file"):
            write(path)
        assert not write(path, replace=False)
        assert os.path.samestat(os.fstat(opened.fileno()), file.stat())
    assert file.read_bytes() == b""


def test_errors_name_the_file_alone(tmp_path: Path) -> None:
    loop = tmp_path / "loop"
    loop.symlink_to("loop")
    for file, kind in (
        (tmp_path / "none" / "a", FileNotFoundError),
        (tmp_path / ("a" * 256), OSError),
        (loop, OSError),
    ):
        with pytest.raises(kind) as raised:
            write(file)
        assert str(raised.value).endswith(f": {str(file)!r}")
        assert raised.value.filename == str(file)
    assert names(tmp_path) == ["loop"]
