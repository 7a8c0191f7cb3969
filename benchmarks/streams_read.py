"""Reports what restarts_reader.py counted of its streams."""

from __future__ import annotations

from typing import Any


def quantile(values: list[float], share: float) -> float:
    """Returns the value that a share of the values does not exceed; 0 for none."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0.0


def print_counts(streams: list[dict[str, Any]]) -> None:
    """Prints how many batches, moves and failures all streams had, and the texts of their errors."""
    for name in ("batches", "moved", "resumed", "warnings", "errors", "differ"):
        print(f"{name:10} {sum(len(s[name]) if isinstance(s[name], list) else s[name] for s in streams)}")
    for text in sorted({text for s in streams for text in s["errors"]}):
        print(f"  {text}")
