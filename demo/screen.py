"""The demo's output: plain lines, and a progress bar on terminals."""

from __future__ import annotations

import io
import os
import sys
import time

_BAR = 24
_REDRAW = 0.05


class Screen:
    """Writes to standard output, with colors and moving bars only on a terminal."""

    def __init__(self) -> None:
        # A terminal that cannot show the bar shows question marks instead.
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(errors="replace")
        self._live = sys.stdout.isatty() and os.environ.get("TERM") != "dumb"
        self._colour = self._live and "NO_COLOR" not in os.environ

    def title(self, text: str) -> None:
        """The title line."""
        self._print(self._styled(text, "1"))

    def step(self, number: int, text: str) -> None:
        """The head of a step."""
        self._print()
        self._print(self._styled(f"{number}  {text}", "1"))

    def say(self, text: str = "") -> None:
        """A line of a step."""
        self._print(f"   {text}" if text else "")

    def aside(self, text: str) -> None:
        """A less important line."""
        self._print(f"   {self._styled(text, '2')}")

    def good(self, text: str) -> None:
        """A line for a check that passed."""
        self._print(f"   {self._styled(text, '32')}")

    def bar(self, label: str, total: int) -> Bar:
        """A progress bar; `done` ends its line."""
        return Bar(label, total, live=self._live)

    def _styled(self, text: str, code: str) -> str:
        return f"\033[{code}m{text}\033[0m" if self._colour else text

    @staticmethod
    def _print(text: str = "") -> None:
        print(text, flush=True)


class Bar:
    """Progress of one epoch. Without a terminal, only its final state is shown."""

    def __init__(self, label: str, total: int, *, live: bool) -> None:
        self._label, self._total, self._live = label, max(total, 1), live
        self._drawn = 0.0

    def at(self, rows: int) -> None:
        """Show the number of rows done, if it is time to redraw."""
        now = time.monotonic()
        if self._live and now - self._drawn >= _REDRAW:
            self._drawn = now
            print(f"\r{self._line(rows)}", end="", flush=True)

    def done(self, rows: int, result: str) -> None:
        """Show the final state and the result."""
        start = "\r" if self._live else ""
        print(f"{start}{self._line(rows)}  {result}", flush=True)

    def _line(self, rows: int) -> str:
        full = min(_BAR, _BAR * rows // self._total)
        return f"   {self._label}  {'█' * full}{'░' * (_BAR - full)}  {rows:>7,} rows"
