"""Where do a joined row's nanoseconds go? A page from CPU profiles of the server.

    python benchmarks/stages.py                                  # profiles T, TPC-H and wide; writes stages.md
    python benchmarks/stages.py --datasets t --wires indexed --seconds 10 --set read_ahead=0
    python benchmarks/stages.py --profile cpu.pb.gz --rows 12000000   # prints a table of another profile

A server is profiled while a client reads warm epochs. Each sample is given to one stage by the table of
patterns in `stage_patterns.py`; the command fails if these cover less than 95 % of the samples of a profile,
since code has then moved. It needs Go, for `go tool pprof`.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import datetime
import os
import re
import socket
import subprocess
import sys
import tempfile
import threading
import urllib.request
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import joins
import process
from inputs import Inputs
from reading import batches
from running import HERE, ROOT, Program, RunError, serving
from stage_patterns import GOROUTINES, GROUPS, UNKNOWN, goroutine_of, stage_of

COVERED = 0.95

PAGE = HERE / "stages.md"


@dataclasses.dataclass(frozen=True)
class Profile:
    """CPU time by stage, and the rows that were sent meanwhile."""

    title: str
    rows: int
    nanoseconds: dict[str, float]
    goroutines: dict[str, float]  # the same time by the goroutine that took it
    unknown: Sequence[tuple[str, float]]  # stacks that no pattern matches, with the most time first

    @property
    def total(self) -> float:
        """All of it."""
        return sum(self.nanoseconds.values())

    @property
    def covered(self) -> float:
        """The share that patterns match."""
        return 1 - self.nanoseconds.get(UNKNOWN, 0.0) / self.total if self.total else 0.0


def main() -> int:
    """Profile, and write the page; or print a table of one profile."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--datasets", default="t,tpch,wide", help=f"of {', '.join(joins.NAMES)}")
    parser.add_argument("--wires", default="plain,indexed", help="of plain, indexed; TPC-H is read plain")
    parser.add_argument("--seconds", type=int, default=15, help="of each profile")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="a server's setting")
    parser.add_argument("--quick", action="store_true", help="small tables; the page is printed, not written")
    parser.add_argument("--profile", type=Path, help="a profile that exists")
    parser.add_argument("--rows", type=int, default=0, help="rows that were sent during that profile")
    given = parser.parse_args()
    if given.profile:
        profiles = [profile_of(given.profile.name, given.rows, given.profile)]
    else:
        settings = tuple((name, value) for name, _, value in (text.partition("=") for text in given.set))
        program = Program(Path(os.environ.get("PENSTOCK_BIN", ROOT / "bin" / "penstock")), settings)
        profiles = [
            record(program, dataset, wire, given.seconds, given.quick)
            for dataset in given.datasets.split(",")
            for wire in given.wires.split(",")
            if (dataset, wire) != (joins.TPCH, "indexed")
        ]
    page = markdown(profiles)
    if given.profile or given.quick:
        print(page)
    else:
        PAGE.write_text(page)
        print(f"written: {os.path.relpath(PAGE)}", file=sys.stderr)
    return report_unknown(profiles)


def report_unknown(profiles: Iterable[Profile]) -> int:
    """Name the stacks that no pattern matches, if they are too many; gives the exit code."""
    missed = 0
    for profile in profiles:
        if profile.covered >= COVERED:
            continue
        missed = 1
        print(f"{profile.title}: the patterns cover {profile.covered:.1%} of the samples", file=sys.stderr)
        for stack, nanoseconds in profile.unknown[:10]:
            print(f"  {nanoseconds / profile.total:.2%}: {stack}", file=sys.stderr)
    return missed


def record(program: Program, dataset: str, wire: str, seconds: int, quick: bool) -> Profile:
    """Profile a server while epochs are read; the first one, which is cold, comes before."""
    join = joins.ensure(dataset, ROOT / ".bench", quick)
    inputs = Inputs.load(join.inputs)
    metrics = f"127.0.0.1:{_free_port()}"
    with (
        tempfile.TemporaryDirectory() as folder,
        serving(program.command(join.config, "127.0.0.1:0", "--metrics", metrics, "--pprof")) as server,
    ):
        query = {"dataset": dataset, "wire": wire, "batch_rows": 8192}
        if (rows := sum(batch.num_rows for batch in batches(server.first, query))) != inputs.expected.rows:
            raise RunError(f"{rows} rows instead of {inputs.expected.rows}")
        path = Path(folder) / "cpu.pb.gz"
        with _reading(server.first, query) as counted:
            before = counted[0]
            url = f"http://{metrics}/debug/pprof/profile?seconds={seconds}"
            with urllib.request.urlopen(url, timeout=seconds + 60) as profile:
                path.write_bytes(profile.read())
            rows = counted[0] - before
        return profile_of(f"{dataset}, {wire}", rows, path)


@contextlib.contextmanager
def _reading(address: str, query: dict[str, object]) -> Iterator[list[int]]:
    """Reads epochs in a thread while the block runs, and counts their rows in a list of one number."""
    counted, done = [0], threading.Event()
    failures: list[RunError] = []

    def read() -> None:
        try:
            while not done.is_set():
                for batch in batches(address, query):
                    counted[0] += batch.num_rows
                    if done.is_set():
                        return
        except RunError as failed:
            failures.append(failed)

    thread = threading.Thread(target=read)
    thread.start()
    try:
        yield counted
    finally:
        done.set()
        thread.join()
    if failures:
        raise failures[0]


def _free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port: int = taken.getsockname()[1]
        return port


def profile_of(title: str, rows: int, path: Path) -> Profile:
    """Divide a profile among stages."""
    text = subprocess.run(
        ["go", "tool", "pprof", "-traces", str(path)], check=True, capture_output=True, text=True
    ).stdout
    nanoseconds: Counter[str] = Counter()
    goroutines: Counter[str] = Counter()
    unknown: Counter[str] = Counter()
    for value, frames in traces(text):
        stage = stage_of(frames)
        nanoseconds[stage] += value
        goroutines[goroutine_of(frames)] += value
        if stage == UNKNOWN:
            unknown[" < ".join(frames[:6])] += value
    if not nanoseconds:
        raise RunError(f"{path.name} has no samples")
    return Profile(title, rows, dict(nanoseconds), dict(goroutines), unknown.most_common())


_UNITS = {"ns": 1, "us": 1_000, "ms": 1_000_000, "s": 1_000_000_000, "mins": 60_000_000_000}
_SAMPLE = re.compile(r"^\s+(\d+(?:\.\d+)?)(ns|us|ms|s|mins)\s{3}(\S.*)$")


def traces(text: str) -> Iterator[tuple[int, list[str]]]:
    """The samples of `go tool pprof -traces`: nanoseconds, and the frames from the innermost one."""
    for block in text.split("-----------+")[1:]:
        value, frames = 0, []
        for line in block.splitlines()[1:]:
            if sample := _SAMPLE.match(line):
                value, frames = round(float(sample[1]) * _UNITS[sample[2]]), [sample[3]]
            elif frames:
                frames.append(line.strip())
        if frames:
            yield value, [frame.removesuffix(" (inline)") for frame in frames]


def markdown(profiles: Sequence[Profile]) -> str:
    """The page."""
    machine = process.machine()
    lines = [
        "# Where a joined row's nanoseconds go",
        "",
        "`make stages` writes this page. CPU time of the server, in nanoseconds per row that it sends, while one",
        "client reads warm epochs in batches of 8,192 rows: samples of a profile, each given to one stage by the",
        "patterns of [stage_patterns.py](stage_patterns.py). Wherever they occur, the collector, the clearing of",
        "memory and allocation are stages of their own; other time belongs to the innermost function that has a",
        "stage, so that copying is part of what copies. Compare shares, not times, with other machines.",
        "",
        (
            f"{datetime.date.today().isoformat()}; {machine['cpu']}, {machine['cores']} cores; Linux "
            f"{machine['kernel']}."
        ),
        "",
        "| stage | " + " | ".join(profile.title for profile in profiles) + " |",
        "|---|" + "---:|" * len(profiles),
    ]
    for group, stages in GROUPS.items():
        if len(stages) > 1:
            lines.append(_row(f"**{group}**", stages, profiles))
            lines += [_row(f"— {stage}", [stage], profiles) for stage in stages if _any(stage, profiles)]
        else:
            lines.append(_row(f"**{group}**", stages, profiles))
    lines.append(_row("not matched by a pattern", [UNKNOWN], profiles))
    lines.append(_row("all", [stage for group in GROUPS.values() for stage in group] + [UNKNOWN], profiles))
    return "\n".join([*lines, *_by_goroutine(profiles), ""])


def _by_goroutine(profiles: Sequence[Profile]) -> list[str]:
    """A second table: what one stream does one after the other, and what it divides among cores."""
    lines = [
        "",
        "## What a stream divides among cores",
        "",
        "The same time by goroutine. A stream has one goroutine each that joins and assembles batches, that",
        "decodes, and that writes to the socket. They run at the same time, and *divided* work runs on idle cores",
        "too. So a row takes at least the largest of: assembly, plus its divided work over the number of cores;",
        "decoding, plus its divided work over the number of cores; writing.",
        "",
        "| goroutine | " + " | ".join(profile.title for profile in profiles) + " |",
        "|---|" + "---:|" * len(profiles),
    ]
    for goroutine in GOROUTINES:
        cells = []
        for profile in profiles:
            spent = profile.goroutines.get(goroutine, 0.0)
            per_row = f"{spent / profile.rows:.1f} " if profile.rows else ""
            cells.append(f"{per_row}({spent / profile.total:.1%})")
        lines.append(f"| {goroutine} | " + " | ".join(cells) + " |")
    return lines


def _any(stage: str, profiles: Iterable[Profile]) -> bool:
    return any(profile.nanoseconds.get(stage, 0) > 0 for profile in profiles)


def _row(title: str, stages: Iterable[str], profiles: Iterable[Profile]) -> str:
    names = list(stages)
    cells = []
    for profile in profiles:
        spent = sum(profile.nanoseconds.get(stage, 0) for stage in names)
        per_row = f"{spent / profile.rows:.1f} " if profile.rows else ""
        cells.append(f"{per_row}({spent / profile.total:.1%})")
    return f"| {title} | " + " | ".join(cells) + " |"


if __name__ == "__main__":
    sys.exit(main())
