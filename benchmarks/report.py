"""Reports of measurements: JSON with every run, and Markdown with the medians."""

from __future__ import annotations

import dataclasses
import json
import statistics
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import aims
from entrants import DUCKDB_FLIGHT, DUCKDB_TORCH, ENGINES, PENSTOCK
from inputs import Inputs, Source
from peers.contender import Outcome
from points import Measured, ratio
from result import Floor, Result

_MIB = 1 << 20

_HEAD = (
    "| contender | rows per batch | lanes | cores | cold s | warm s (min to max) | M rows/s | first batch s "
    "| CPU s server + client | peak MiB server + client | of DuckDB, Flight | of the best engine |\n"
    "|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|"
)


@dataclasses.dataclass
class Report:
    """One run of the benchmark."""

    name: str
    date: str
    note: str
    machine: dict[str, str]
    results: list[Result]
    failures: list[str]

    @property
    def rounds(self) -> str:
        """How many rounds there were: of every data set, or from the fewest to the most."""
        counts = {len(one.rounds) for result in self.results for one in result.measured}
        return " to ".join(str(count) for count in sorted({min(counts, default=0), max(counts, default=0)}))

    def markdown(self) -> str:
        """The whole report."""
        machine = self.machine
        versions = [f"{key} {value}" for key, value in machine.items() if key not in _HARDWARE]
        verified = "; ".join(self.failures) or "row counts and checksums of every run are right"
        lines = [f"## What a batch costs, {self.date}", ""]
        if self.note:
            lines += [self.note, ""]
        lines += [
            (
                f"{machine['cpu']}, {machine['cores']} cores, {machine['memory']}; Linux "
                f"{machine['kernel']}; {', '.join(versions)}. Medians of {self.rounds} interleaved "
                f"rounds, page cache warm; CPU seconds and rows/s are of the warm epoch. Verified: {verified}."
            ),
            "",
        ]
        lines += [f"{_markdown(result)}\n" for result in self.results]
        by_name = {result.inputs.dataset: result for result in self.results}
        lines += ["### Aims", "", "Ratios of the warm epoch, within this run.", ""]
        lines += [aims.markdown(aims.all_of(by_name)), ""]
        return "\n".join(lines)

    def write(self, folder: Path) -> Path:
        """Write DATE-NAME.json and DATE-NAME.md; returns the path without its extension."""
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{self.date}-{self.name}"
        path.with_suffix(".json").write_text(json.dumps(self._json(), indent=1) + "\n")
        path.with_suffix(".md").write_text(self.markdown())
        return path

    def _json(self) -> dict[str, Any]:
        by_name = {result.inputs.dataset: result for result in self.results}
        return {
            "name": self.name,
            "date": self.date,
            "note": self.note,
            "machine": self.machine,
            "rounds": self.rounds,
            "results": {name: _result_json(result) for name, result in by_name.items()},
            "aims": [{**dataclasses.asdict(aim), "verdict": aim.verdict} for aim in aims.all_of(by_name)],
        }


_HARDWARE = ("cpu", "cores", "memory", "kernel")


def _markdown(result: Result) -> str:
    """One table, and the conclusions from it."""
    flight, engine = result.fastest((DUCKDB_FLIGHT,)), result.fastest((*ENGINES, DUCKDB_TORCH))
    lines = [f"### {result.inputs.dataset}", "", _tables_line(result.inputs), "", _HEAD]
    lines += [_row(one, [flight, engine]) for one in result.measured if one.outcomes]
    lines += _floor_rows("Page decompression alone", result.pages)
    lines += _floor_rows("One copy of the plain batches in memory", result.copies)
    return "\n".join([*lines, "", *_remarks(result)])


def _row(measured: Measured, references: Sequence[Measured | None]) -> str:
    point = measured.point
    seconds = [outcome.warm.seconds for outcome in measured.outcomes]
    ratios = [
        _ratio(reference, measured) if reference and point.entrant.joins else "" for reference in references
    ]
    rows = measured.outcomes[0].rows
    cells = [
        f"{point.entrant.title}, `{point.variant}`" if point.variant else point.entrant.title,
        f"{point.batch_rows:,}",
        str(point.lanes),
        str(point.cores or "all"),
        f"{measured.median(lambda outcome: outcome.cold.seconds):.2f}",
        f"{statistics.median(seconds):.2f} ({min(seconds):.2f} to {max(seconds):.2f})",
        f"{rows / statistics.median(seconds) / 1e6:.2f}",
        f"{measured.median(lambda outcome: outcome.warm.first):.2f}",
        _both(
            measured,
            lambda outcome: outcome.warm.server_cpu,
            lambda outcome: outcome.warm.client_cpu,
            "{:.2f}",
        ),
        _both(
            measured,
            lambda outcome: outcome.server_peak / _MIB,
            lambda outcome: outcome.client_peak / _MIB,
            "{:.0f}",
        ),
        *ratios,
    ]
    return "| " + " | ".join(cells) + " |"


def _ratio(reference: Measured, measured: Measured) -> str:
    found = ratio(reference, measured, lambda outcome: outcome.warm.seconds)
    return "" if found is None else f"{found:.2f}"


def _both(
    measured: Measured, server: Callable[[Outcome], float], client: Callable[[Outcome], float], form: str
) -> str:
    """Server and client, or the single process without a server."""
    of_client = form.format(measured.median(client))
    if measured.point.entrant.serves == "nothing":
        return of_client
    return f"{form.format(measured.median(server))} + {of_client}"


def _floor_rows(title: str, floors: Sequence[Floor]) -> list[str]:
    if not floors:
        return []
    seconds = [floor.seconds for floor in floors]
    middle = statistics.median(seconds)
    cpu = statistics.median(floor.cpu for floor in floors)
    return [
        (
            f"| {title} ({floors[0].bytes / _MIB:,.0f} MiB) | | | all | | "
            f"{middle:.2f} ({min(seconds):.2f} to {max(seconds):.2f}) | {floors[0].rows / middle / 1e6:.2f} | | "
            f"{cpu:.2f} | | | |"
        )
    ]


def _remarks(result: Result) -> list[str]:
    remarks = []
    penstock, stage2 = result.find(PENSTOCK), result.fastest(("stage2",))
    if penstock and stage2:
        written = stage2.median(lambda outcome: outcome.written)
        remarks.append(
            f"- One epoch streamed is {_ratio(stage2, penstock)} times as fast as stage 2, and writes "
            f"nothing; stage 2 writes {written / _MIB:.0f} MiB."
        )
    if result.elsewhere:
        remarks.append(
            f"- Other work on the machine took {statistics.median(result.elsewhere):.2f} cores during a warm "
            f"epoch (median; at most {max(result.elsewhere):.2f})."
        )
    if not result.quiet:
        remarks.append("- **The machine was not quiet: the seconds above are not reliable.**")
    return remarks


def _result_json(result: Result) -> dict[str, Any]:
    return {
        "training": _source_json(result.inputs.training),
        "staging": _source_json(result.inputs.staging),
        "contenders": [
            {
                "name": measured.point.entrant.name,
                "batch_rows": measured.point.batch_rows,
                "lanes": measured.point.lanes,
                "cores": measured.point.cores,
                "variant": measured.point.variant,
                "runs": [outcome and dataclasses.asdict(outcome) for outcome in measured.rounds],
            }
            for measured in result.measured
        ],
        "pages": [dataclasses.asdict(floor) for floor in result.pages],
        "copies": [dataclasses.asdict(floor) for floor in result.copies],
        "one_more": {variant: dataclasses.asdict(one) for variant, one in result.one_more.items()},
    }


def _source_json(source: Source) -> dict[str, Any]:
    """Everything except paths, which are specific to this machine, and the snapshot, which is random."""
    kept = ("table", "rows", "bytes_on_disk", "largest_row_group", "largest_bucket")
    return {
        "files": len(source.files),
        "columns": len(source.columns),
        **{name: getattr(source, name) for name in kept},
    }


def _tables_line(inputs: Inputs) -> str:
    parts = [
        f"{source.rows:,} rows of {len(source.columns)} columns in {len(source.files)} files, "
        f"{source.bytes_on_disk / _MIB:.0f} MiB"
        for source in (inputs.training, inputs.staging)
    ]
    joined = f"{inputs.join.capitalize()} join: {inputs.expected.rows:,} rows."
    return f"Training: {parts[0]}. Staging: {parts[1]}. {joined}"
