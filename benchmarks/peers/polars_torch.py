"""Polars' streaming engine in the consumer's own process, into tensors."""

from __future__ import annotations

from peers import into_torch
from peers.polars_local import Polars

if __name__ == "__main__":
    into_torch.main(Polars)
