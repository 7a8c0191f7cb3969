"""Penstock read by `penstock.torch.IterableDataset` with `wire: indexed`."""

from __future__ import annotations

from typing import Any, ClassVar

from peers import contender
from peers.penstock_torch import Torch


class Indexed(Torch):
    """Gives the features of a request once in each batch, with the rows that they belong to."""

    fields: ClassVar[dict[str, Any]] = {"wire": "indexed"}


if __name__ == "__main__":
    contender.main(Indexed, contender.joined)
