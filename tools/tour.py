"""Runs the blocks of pages, in order, as one shell session.

    python tools/tour.py README.md --section "A tour in five minutes"
    python tools/tour.py docs/quickstart.md --environment .venv/torch
    python tools/tour.py docs/recipes/README.md docs/recipes/rows.md --environment .venv/torch

Several pages are one session, in this order. Blocks count in their order:

* ``sh`` runs as it stands, and ``python`` through the page's Python;
* ``python tables.py`` or ``yaml penstock.yaml``, a block with a file's name, is written
  to that file;
* ``text`` is what the block before it prints, where "…" stands for anything.

The session begins in the checkout. The port that the page names is replaced by a free one,
so that a running server is not in the way, and the folder ~/first, or ~/first-nulls, by an empty one. With an
environment, ``python3 -m venv`` gives that one, and ``pip install`` installs nothing: it
fails where something that it is to install is not there. The first block that fails ends
the tour.

With a wheel, whose path the session has as WHEEL, the environment is a new one, and Go is not
on the PATH:

    python tools/tour.py docs/quickstart.md --wheel dist/wheels/penstock-….whl --section "1. Install" --commands 6

fails if the page's commands are more than six, and prints how much of the processors' time
they took.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import os
import re
import resource
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

PORT = "8815"
FOLDER = re.compile(r"~/first(-\w+)?")
ROOT = Path(__file__).resolve().parents[1]
# Runs when a session ends, at whichever block.
END = """
code=$?; exec >&3 2>&4
[ -z "${printed:-}" ] || cat "$printed"
kill $(jobs -p) 2> /dev/null || true
exit $code
"""


class Block(NamedTuple):
    """One block of a page: its language, the file that it is, and its text."""

    language: str
    file: str
    text: str


def blocks(page: str, sections: list[str]) -> list[Block]:
    """Returns the blocks of a page, or of some of its sections."""
    if sections:
        parts = [page.partition(f"## {section}\n")[2] for section in sections]
        page = "".join(re.split(r"^## ", part, maxsplit=1, flags=re.MULTILINE)[0] for part in parts)
    found = re.findall(
        r"^```(sh|python|yaml|text)(?: (\S+))?\n(.*?)^```$", page, flags=re.MULTILINE | re.DOTALL
    )
    return [Block(*one) for one in found]


def script(found: list[Block], python: str, work: Path) -> str:
    """Combines the blocks into one bash script that stops what it started."""
    lines = ["set -euo pipefail", "exec 3>&1 4>&2", f"trap {shlex.quote(END)} EXIT"]
    for number, block in enumerate(found, start=1):
        wanted, printed = work / f"{number}.wanted", work / f"{number - 1}.printed"
        lines.append(f"echo '── block {number}'")
        if block.language == "text":
            wanted.write_text(block.text, encoding="utf-8")
            lines.append(shlex.join([sys.executable, __file__, "--compare", str(wanted), str(printed)]))
        elif block.file:
            lines.append(f"cat > {shlex.quote(block.file)} <<'PENSTOCK_TOUR'\n{block.text}PENSTOCK_TOUR")
        elif block.language == "yaml":
            continue
        else:
            run = (
                block.text
                if block.language == "sh"
                else f"{python} - <<'PENSTOCK_TOUR'\n{block.text}PENSTOCK_TOUR\n"
            )
            told = shlex.quote(str(work / f"{number}.printed"))
            # In this shell, not in one below it: what a block exports and starts stays.
            lines.append(f"printed={told}; exec > $printed 2>&1\n{run}exec >&3 2>&4; cat $printed; printed=")
    return "\n".join(lines)


def shims(folder: Path, environment: Path) -> None:
    """Makes a python3 that uses an existing environment, and a pip that only checks what is installed."""
    pip = shlex.join([str(environment / "bin/python"), __file__, "--installed"])
    lines = [
        "#!/usr/bin/env bash",
        "set -euo pipefail",
        '[ "$1 $2" = "-m venv" ]',
        'mkdir -p "$3/bin"',
        f'printf \'#!/bin/sh\\nexec %s "$@"\\n\' {shlex.quote(str(environment / "bin/python"))} > "$3/bin/python"',
        f'printf \'#!/bin/sh\\nexec %s "$@"\\n\' {shlex.quote(pip)} > "$3/bin/pip"',
        'chmod +x "$3/bin/python" "$3/bin/pip"',
    ]
    folder.mkdir()
    (folder / "python3").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (folder / "python3").chmod(0o755)


def missing(requirements: list[str]) -> list[str]:
    """Returns what pip would have to install: our own package by its folder, others by name."""
    out = []
    for requirement in requirements:
        requirement = re.sub(r"^(?:.*/)?([\w-]+?)-\d[^\[]*\.whl", r"\1", requirement)
        form = re.fullmatch(r"(?:.*/)?([\w-]+)(?:\[([\w,-]+)\])?", requirement)
        name = "penstock" if form and form[1] == "python" else form[1] if form else requirement
        try:
            about = importlib.metadata.metadata(name)
            needed = importlib.metadata.requires(name) or []
        except importlib.metadata.PackageNotFoundError:
            out.append(name)
            continue
        for extra in (form[2] or "").split(",") if form else []:
            if extra and extra not in (about.get_all("Provides-Extra") or []):
                out.append(f"{name}[{extra}]")
            of_extra = [
                one for one in needed if extra and re.search(rf"extra == ['\"]{re.escape(extra)}['\"]", one)
            ]
            out += missing([re.split(r"[^\w-]", one)[0] for one in of_extra])
    return out


def differs(wanted: str, printed: str) -> bool:
    """Returns whether a block printed something else than the page shows."""

    def plain(text: str) -> str:
        return "\n".join(line.rstrip() for line in text.strip().splitlines())

    form = ".*".join(re.escape(part) for part in plain(wanted).split("…"))
    return re.fullmatch(form, plain(printed), flags=re.DOTALL) is None


def free_port() -> str:
    """Returns a free port."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return str(listener.getsockname()[1])


class Tools(NamedTuple):
    """What a session has: the Python for its blocks, and an environment that exists or a wheel to install."""

    python: str
    environment: Path | None
    wheel: Path | None


def without_go(path: str) -> str:
    """A PATH without the folders that have Go."""
    return os.pathsep.join(folder for folder in path.split(os.pathsep) if not shutil.which("go", path=folder))


def commands(found: list[Block]) -> int:
    """How many commands the blocks have."""
    lines = [line for block in found if block.language == "sh" for line in block.text.splitlines()]
    return sum(len(re.split(r"&&|;", line)) for line in lines if line.strip() and not line.startswith("#"))


def exceeds(found: list[Block], most: int | None) -> bool:
    """Prints how many commands were run, and how long they took, if their number is limited; returns whether it is too large."""
    if most is None:
        return False
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    number, seconds = commands(found), used.ru_utime + used.ru_stime
    print(f"{number} commands, {seconds:.1f} s of the processors' time")
    return number > most


def tour(pages: list[Path], sections: list[str], tools: Tools, most: int | None = None) -> int:
    """Runs the blocks of pages."""
    found: list[Block] = []
    for page in pages:
        here = blocks(page.read_text(encoding="utf-8"), sections)
        if not here:
            print(f"{page} has no block{f' in a section {sections!r}' if sections else ''}", file=sys.stderr)
            return 1
        found += here
    with tempfile.TemporaryDirectory(prefix="penstock-tour-") as made:
        work = Path(made)
        port = free_port()
        found = [
            one._replace(text=FOLDER.sub(str(work / "first"), one.text.replace(PORT, port))) for one in found
        ]
        text = script(found, tools.python, work)
        variables = {**os.environ, "WHEEL": str(tools.wheel.absolute() if tools.wheel else "penstock-0.whl")}
        if tools.environment:
            shims(work / "bin", tools.environment.absolute())
            variables["PATH"] = os.pathsep.join([str(work / "bin"), str(ROOT / "bin"), variables["PATH"]])
        if tools.wheel:
            variables |= {"PATH": without_go(variables["PATH"]), "PIP_QUIET": "1"}
        code = subprocess.run(["bash", "-c", text], cwd=ROOT, env=variables, check=False).returncode
        return code or int(exceeds(found, most))


def main() -> int:
    """Runs a tour, or what a tour asks of this program while it runs."""
    if sys.argv[1:3] == ["--installed", "install"]:
        lacking = missing(sys.argv[3:])
        print(f"not installed: {', '.join(lacking)}" if lacking else "all installed")
        return 1 if lacking else 0
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("page", type=Path, nargs="*")
    parser.add_argument(
        "--section",
        action="append",
        default=[],
        help="of each page, any number of times; all of it, if left out",
    )
    parser.add_argument("--python", default="venv/bin/python", help="what runs blocks of Python")
    parser.add_argument("--environment", type=Path, help="what python3 -m venv gives")
    parser.add_argument("--wheel", type=Path, help="installed into a new environment")
    parser.add_argument("--commands", type=int, help="at most")
    parser.add_argument(
        "--compare", type=Path, nargs=2, metavar=("WANTED", "PRINTED"), help=argparse.SUPPRESS
    )
    given = parser.parse_args()
    if given.compare:
        wanted, printed = (path.read_text(encoding="utf-8") for path in given.compare)
        if differs(wanted, printed):
            print(f"the page shows:\n{wanted}\nand there came:\n{printed}", file=sys.stderr)
            return 1
        return 0
    if not given.page:
        parser.error("name a page")
    return tour(
        given.page, given.section, Tools(given.python, given.environment, given.wheel), given.commands
    )


if __name__ == "__main__":
    sys.exit(main())
