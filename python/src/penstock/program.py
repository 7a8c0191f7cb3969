"""Finds the server's program, and checks its version."""

from __future__ import annotations

import importlib.metadata
import os
import shutil
import subprocess
import sysconfig
from pathlib import Path

from penstock import errors
from penstock.version import __version__

NAME = "penstock"
"""The name of the program's file, and the first word of what it prints about itself."""

_LIMIT = 60.0  # seconds within which the program must print its version


def find_program(given: str | os.PathLike[str] | None = None) -> Path:
    """Returns the program to start.

    Args:
        given: the program's path or name. If omitted, the one installed by this package's wheel, or else the one on the
            PATH.

    Raises:
        NotFound: there is no program.
        Invalid: the program's version differs from this package's.
        Unavailable: the program cannot be started.
    """
    if given is None and (installed := _installed()) is not None:
        return installed
    name = NAME if given is None else os.fspath(given)
    path = shutil.which(name)
    if path is None:
        raise errors.NotFound(
            f"there is no program {name}",
            remedy="install a wheel of this package that has it, add its folder to the PATH, or connect to a server with penstock.connect",
        )
    _check_version(path)
    return Path(path)


def _installed() -> Path | None:
    """Returns the program installed by this package's wheel; None if there is none."""
    try:
        files = importlib.metadata.files("penstock") or []
    except importlib.metadata.PackageNotFoundError:
        return None
    for file in files:
        if file.name == NAME and file.parent.name == Path(sysconfig.get_path("scripts")).name:
            found = Path(os.fspath(file.locate()))
            return found.resolve() if found.exists() else None
    return None


def _check_version(path: str) -> None:
    try:
        said = subprocess.run([path, "version"], capture_output=True, timeout=_LIMIT, check=False)
    except (OSError, subprocess.TimeoutExpired) as e:
        raise errors.Unavailable(f"start {path}: {e}") from e
    name, _, version = said.stdout.decode(errors="replace").partition("\n")[0].partition(" ")
    if name != NAME:
        raise errors.Invalid(
            f"{path} is not Penstock's server: `{path} version` does not print its version",
            remedy="put the folder of Penstock's own first into the PATH, or pass program=",
        )
    if version != __version__:
        raise errors.Invalid(
            f"{path} is penstock {version}, and this package is {__version__}",
            remedy="install the same version of both",
        )
