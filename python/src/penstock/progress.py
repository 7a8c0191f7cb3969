"""Shows a stream's progress: a bar on a terminal, otherwise lines."""

from __future__ import annotations

import sys
import time
from typing import Any, Literal, TextIO

ProgressOption = bool | Literal["auto"]

# Seconds between updates on a terminal, and between lines elsewhere.
_REDRAWN = 0.1
_LINES = 10.0


class Progress:
    """Shows a stream's progress, its speed, and the share of time that its reader waits.

    If tqdm is installed, it draws a bar; otherwise one line of text is shown. Both are written to standard error.
    """

    def __init__(
        self,
        name: str,
        rows: int | None,
        parts: int | None,
        *,
        unit: str = "batches",
        out: TextIO | None = None,
    ) -> None:
        """Prepares to show a stream; `rows` and `parts` are None if unknown."""
        self._name = name
        self._rows = rows
        self._parts = parts
        self._unit = unit
        self._out = sys.stderr if out is None else out
        self._shown = float("-inf")
        self._bar: Any = self._new_bar()
        self._text = ""
        self._closed = False

    @classmethod
    def make(
        cls, option: ProgressOption, name: str, rows: int | None, parts: int | None, *, unit: str = "batches"
    ) -> Progress | None:
        """Creates a Progress if requested; "auto" requests it on a terminal. Otherwise returns None."""
        if option == "auto":
            option = sys.stderr.isatty()
        return cls(name, rows, parts, unit=unit) if option else None

    def show(self, rows: int, parts: int, seconds: float, stall: float | None = None) -> None:
        """Shows the rows and parts read so far, the speed, and the share of the seconds that the reader waited."""
        more = f"{parts}{'' if self._parts is None else f'/{self._parts}'} {self._unit}"
        waited = "" if stall is None else f", waited {stall:.0%}"
        if self._bar is not None:
            self._bar.set_postfix_str(more + waited, refresh=False)
            self._bar.update(rows - self._bar.n)
            return
        rate = rows / seconds if seconds else 0.0
        share = "" if not self._rows else f" ({min(1.0, rows / self._rows):.0%})"
        total = "" if self._rows is None else f"/{self._rows}"
        self._text = f"{self._name}: {rows}{total} rows{share}, {more}, {rate:.0f} rows/s{waited}"
        now = time.monotonic()
        if now - self._shown >= (_REDRAWN if self._out.isatty() else _LINES):
            self._shown = now
            self._write()

    def close(self) -> None:
        """Shows the last state and leaves it on the screen."""
        if self._closed:
            return
        self._closed = True
        if self._bar is not None:
            self._bar.close()
        elif self._text:
            self._write()
            if self._out.isatty():
                self._out.write("\n")
        self._out.flush()

    def _write(self) -> None:
        self._out.write(f"\r{self._text}\x1b[K" if self._out.isatty() else f"{self._text}\n")
        self._out.flush()

    def _new_bar(self) -> Any:
        try:
            from tqdm import tqdm
        except ImportError:
            return None
        return tqdm(total=self._rows, desc=self._name, unit=" rows", unit_scale=True, file=self._out)
