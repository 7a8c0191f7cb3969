"""Many processes of penstock stage that commit to one table at once, and the rows that it then has.

Rows are numbered by the process and its change, so that a token shows which rows its snapshot adds.
"""

from __future__ import annotations

import datetime
import subprocess
import threading
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

ROWS = 10  # of a change
CHANGES = 1000  # of a process, at most
FOREIGN = 10**9  # the first number of other writers' rows
DAYS = 3
REPLACED_DAY = 100  # whose rows the first process replaces by each change
_LIMIT = 300.0


def numbers(process: int, change: int) -> range:
    """The rows of a change."""
    first = (process * CHANGES + change) * ROWS
    return range(first, first + ROWS)


def changed(rows: dict[int, set[int]], token: str) -> None:
    """Makes the change of a token to the rows of all processes."""
    process, change = (int(part[1:]) for part in token.split("-")[1:3])
    added = set(numbers(process, change))
    rows[process] = added if process == 0 else rows.get(process, set()) | added


class StageRuns:
    """Processes, each of which makes one change after another.

    Attributes:
        failures: what commands said that failed.
    """

    def __init__(self, command: list[str], folder: Path, processes: int, changes: int) -> None:
        """Command is penstock stage with a table and a config file, without rows."""
        self._command, self._folder, self._changes = command, folder, changes
        self._threads = [threading.Thread(target=self._run, args=(i,)) for i in range(processes)]
        self.failures: list[str] = []

    def start(self) -> None:
        """Starts all processes."""
        for thread in self._threads:
            thread.start()

    def running(self) -> bool:
        """Whether one of them has changes left."""
        return any(thread.is_alive() for thread in self._threads)

    def wait(self) -> None:
        """Waits for all of them."""
        for thread in self._threads:
            thread.join()

    def rows(self) -> set[int]:
        """All rows that the table has of them in the end."""
        rows: dict[int, set[int]] = {}
        for process in range(len(self._threads)):
            for change in range(self._changes):
                changed(rows, f"t-p{process}-c{change}")
        return set().union(*rows.values())

    def _run(self, process: int) -> None:
        for change in range(self._changes):
            self._stage(process, change)

    def _stage(self, process: int, change: int) -> None:
        path = self._folder / f"rows-{process}-{change}.parquet"
        ids = list(numbers(process, change))
        days = [REPLACED_DAY if process == 0 else i % DAYS for i in ids]
        pq.write_table(pa.table({"id": pa.array(ids, pa.int64()), "day": pa.array(days, pa.int64())}), path)
        now = datetime.datetime.now(datetime.UTC).strftime("%Y%m%dT%H%M%S.000Z")
        command = [*self._command, str(path), "--token", f"{now}-p{process}-c{change}"]
        command += ["--mode", "replace" if process == 0 else "append"]
        # Some changes are made by two processes at once, with one token.
        running = [
            subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
            for _ in range(2 if change % 4 == 1 else 1)
        ]
        for one in running:
            _, error = one.communicate(timeout=_LIMIT)
            if one.returncode != 0:
                self.failures.append(error)
