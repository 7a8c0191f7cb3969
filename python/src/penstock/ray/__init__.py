"""Penstock's streams in Ray.

This package needs Ray, `pip install "./python[ray]"` in a checkout; the rest of `penstock` does not import it.
"""

try:
    import ray as _ray  # noqa: F401 - imported here for a better error if it is missing
except ModuleNotFoundError as missing:
    if missing.name != "ray":
        raise
    raise ModuleNotFoundError("penstock.ray needs Ray: pip install 'penstock[ray]'", name="ray") from missing

from penstock.ray.source import read
from penstock.ray.train import report, resumed
from penstock.ray.transforms import Transformed, transformed

__all__ = ["Transformed", "read", "report", "resumed", "transformed"]
