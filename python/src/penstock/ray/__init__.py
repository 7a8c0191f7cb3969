"""Penstock's streams in Ray.

This package needs Ray, `pip install "./python[ray]"` in a checkout; the rest of `penstock` does not import it.
"""

try:
    import ray as _ray  # noqa: F401 - imported here for a better error if it is missing
except ModuleNotFoundError as missing:
    if missing.name != "ray":
        raise
    raise ModuleNotFoundError("penstock.ray needs Ray: pip install 'penstock[ray]'", name="ray") from missing

from typing import TYPE_CHECKING, Any

from penstock.ray.train import report, resumed
from penstock.ray.transforms import transformed
from penstock.ray.transforms_epochs import Transformed

if TYPE_CHECKING:
    from penstock.ray.source import read

__all__ = ["Transformed", "read", "report", "resumed", "transformed"]


def __getattr__(name: str) -> Any:
    """Imports Ray Data when it is first used: actors of transforms do not need it, and start sooner."""
    if name == "read":
        from penstock.ray.source import read

        return read
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
