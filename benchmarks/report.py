"""Reports of measurements: JSON with every run, and Markdown with the medians."""

from __future__ import annotations

import dataclasses
import json
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

from entrants import DUCKDB, DUCKDB_FLIGHT, DUCKDB_FLIGHT_UNIX, DUCKDB_TORCH, PENSTOCK, STAGE2, Entrant
from inputs import Inputs, Source
from peers.contender import Outcome

_MIB = 1 << 20

# The memory of one stream in addition to its open lanes.
_BOUND_BASE = 256 * _MIB

# With more busy cores than this, times mostly measure the other work.
_QUIET = 0.15

_HEAD = (
    "| contender | rows per batch | s (min to max) | M rows/s | first batch s "
    "| CPU s server + client | peak MiB server + client | written MiB "
    "| of DuckDB, Flight | of DuckDB, in process |\n"
    "|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|"
)


@dataclasses.dataclass
class Measured:
    """All rounds of one contender at one batch size on one data set."""

    entrant: Entrant
    batch_rows: int
    outcomes: list[Outcome]

    def median(self, measure: Callable[[Outcome], float]) -> float:
        """The median over the rounds."""
        return statistics.median(measure(outcome) for outcome in self.outcomes)

    @property
    def rate(self) -> float:
        """Rows per second, of the median time."""
        return self.outcomes[0].rows / self.median(lambda outcome: outcome.seconds)


@dataclasses.dataclass
class Result:
    """All contenders on one data set."""

    inputs: Inputs
    measured: list[Measured]

    def markdown(self) -> str:
        """One table, and the conclusions from it."""
        ran = self._fastest()
        lines = [f"### {self.inputs.dataset}", "", _tables_line(self.inputs), "", _HEAD]
        for measured in ran.values():
            # Flight is compared with Flight over the same transport.
            peer = DUCKDB_FLIGHT_UNIX if measured.entrant.over == "unix" else DUCKDB_FLIGHT
            lines.append(_row(measured, [ran.get(peer), ran.get(DUCKDB) or ran.get(DUCKDB_TORCH)]))
        lines += ["", *self._remarks(ran)]
        return "\n".join(lines)

    def _fastest(self) -> dict[str, Measured]:
        """Each contender that ran, at its fastest batch size."""
        fastest: dict[str, Measured] = {}
        for measured in self.measured:
            name = measured.entrant.name
            if measured.outcomes and (name not in fastest or measured.rate > fastest[name].rate):
                fastest[name] = measured
        return fastest

    def bound(self) -> int:
        """The memory limit of a Penstock server for one stream of one lane, in bytes."""
        training, staging = self.inputs.training, self.inputs.staging
        return staging.largest_bucket + training.largest_row_group + _BOUND_BASE

    def _remarks(self, ran: dict[str, Measured]) -> list[str]:
        remarks = []
        if PENSTOCK in ran:
            peak = max(outcome.server_peak for outcome in ran[PENSTOCK].outcomes)
            verdict = "within" if peak <= self.bound() else "**above**"
            remarks.append(
                f"- Penstock's server peaked at {peak / _MIB:.0f} MiB, {verdict} its bound of "
                f"{self.bound() / _MIB:.0f} MiB: for its one open lane the largest staging bucket "
                f"({self.inputs.staging.largest_bucket / _MIB:.0f}) and the largest training row "
                f"group ({self.inputs.training.largest_row_group / _MIB:.0f}), and 256."
            )
        if PENSTOCK in ran and STAGE2 in ran:
            slower = ran[PENSTOCK].rate / ran[STAGE2].rate
            written = ran[STAGE2].median(lambda outcome: outcome.written)
            remarks.append(
                f"- One epoch streamed is {slower:.2f} times as fast as stage 2, and writes "
                f"nothing; stage 2 writes {written / _MIB:.0f} MiB."
            )
        every = [outcome for measured in ran.values() for outcome in measured.outcomes]
        if every:
            share = statistics.median(outcome.elsewhere for outcome in every)
            worst = max(outcome.elsewhere for outcome in every)
            remarks.append(
                f"- Other work on the machine took {share:.2f} cores during a timed run (median; "
                f"at most {worst:.2f})."
            )
            if share > _QUIET:
                remarks.append(
                    "- **The machine was not quiet: the seconds and ratios above are not reliable.**"
                )
        return remarks


@dataclasses.dataclass
class Report:
    """One run of the benchmark."""

    name: str
    date: str
    note: str
    rounds: int
    sizes: dict[str, Any]
    machine: dict[str, str]
    results: list[Result]
    failures: list[str]

    def markdown(self) -> str:
        """The whole report."""
        machine = self.machine
        versions = [f"{key} {value}" for key, value in machine.items() if key not in _HARDWARE]
        verified = "; ".join(self.failures) or "row counts and checksums of every run are right"
        lines = [f"## Side by side, {self.date}", ""]
        if self.note:
            lines += [self.note, ""]
        lines += [
            (
                f"{machine['cpu']}, {machine['cores']} cores, {machine['memory']}; Linux "
                f"{machine['kernel']}; {', '.join(versions)}. Medians of {self.rounds} interleaved "
                f"runs after a warm-up, page cache warm. Verified: {verified}."
            ),
            "",
        ]
        lines += [f"{result.markdown()}\n" for result in self.results]
        return "\n".join(lines)

    def write(self, folder: Path) -> Path:
        """Write DATE-NAME.json and DATE-NAME.md; returns the path without its extension."""
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{self.date}-{self.name}"
        path.with_suffix(".json").write_text(json.dumps(self._json(), indent=1) + "\n")
        path.with_suffix(".md").write_text(self.markdown())
        return path

    def _json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "date": self.date,
            "note": self.note,
            "machine": self.machine,
            "sizes": self.sizes,
            "rounds": self.rounds,
            "results": {result.inputs.dataset: _result_json(result) for result in self.results},
        }


_HARDWARE = ("cpu", "cores", "memory", "kernel")


def _result_json(result: Result) -> dict[str, Any]:
    return {
        "bound": result.bound(),
        "training": _source_json(result.inputs.training),
        "staging": _source_json(result.inputs.staging),
        "contenders": [
            {
                "name": measured.entrant.name,
                "batch_rows": measured.batch_rows,
                "runs": [dataclasses.asdict(outcome) for outcome in measured.outcomes],
            }
            for measured in result.measured
        ],
    }


def _source_json(source: Source) -> dict[str, Any]:
    """Everything except paths, which are specific to this machine, and the snapshot, which is random."""
    kept = ("table", "rows", "bytes_on_disk", "largest_row_group", "largest_bucket")
    return {"files": len(source.files), **{name: getattr(source, name) for name in kept}}


def _tables_line(inputs: Inputs) -> str:
    parts = [
        f"{source.rows:,} rows of {len(source.columns)} columns in {len(source.files)} files, "
        f"{source.bytes_on_disk / _MIB:.0f} MiB"
        for source in (inputs.training, inputs.staging)
    ]
    return f"Training: {parts[0]}. Staging: {parts[1]}."


def _row(measured: Measured, references: list[Measured | None]) -> str:
    seconds = [outcome.seconds for outcome in measured.outcomes]
    ratios = [
        f"{measured.rate / reference.rate:.2f}" if reference and measured.entrant.joins else ""
        for reference in references
    ]
    written = measured.median(lambda outcome: outcome.written) / _MIB
    cells = [
        measured.entrant.title,
        f"{measured.batch_rows:,}",
        f"{statistics.median(seconds):.2f} ({min(seconds):.2f} to {max(seconds):.2f})",
        f"{measured.rate / 1e6:.2f}",
        f"{measured.median(lambda outcome: outcome.first):.2f}",
        _both(
            measured,
            measured.median(lambda outcome: outcome.server_cpu),
            measured.median(lambda outcome: outcome.client_cpu),
            "{:.2f}",
        ),
        _both(
            measured,
            measured.median(lambda outcome: outcome.server_peak / _MIB),
            measured.median(lambda outcome: outcome.client_peak / _MIB),
            "{:.0f}",
        ),
        f"{written:.0f}",
        *ratios,
    ]
    return "| " + " | ".join(cells) + " |"


def _both(measured: Measured, server: float, client: float, form: str) -> str:
    """Server and client, or the single process without a server."""
    if measured.entrant.server is None:
        return form.format(client)
    return f"{form.format(server)} + {form.format(client)}"
