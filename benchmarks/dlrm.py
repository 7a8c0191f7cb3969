"""A small DLRM on T: what `gpu.py` trains, and the columns and rules of its input.

Seven ids and a list of 50 ids are embedded, and go with 18 floats through three layers. Ids are taken modulo the
size of the embeddings. A batch has 27 tensors, 550 bytes a row: each column is a tensor of its own, as in tables
of features, which is the hardest form to feed.
"""

from __future__ import annotations

from typing import Any

import torch
from peers.into_torch import FLOATS, STAGED_FLOATS
from torch import nn

from penstock.torch import Batch

IDS = ["item_id", "i0", "i1", "i2", "i3", "i4", "user_id"]
HISTORY = "history"
ALL_FLOATS = [*FLOATS, *STAGED_FLOATS]
LABEL = "label"
COLUMNS = [*IDS, HISTORY, *ALL_FLOATS, LABEL]

# Rows without a match have the features of no request: id 0, an empty list, and zeros.
RULES: dict[str, Any] = {
    "nulls": {
        "*": "error",
        "user_id": 0,
        HISTORY: "empty",
        f"{HISTORY}[]": "error",
        **dict.fromkeys(STAGED_FLOATS, 0),
    }
}

_WIDTH = 64
_LAYERS = (1024, 512)


class Model(nn.Module):
    """The scores of the rows of a batch."""

    def __init__(self, ids: int) -> None:
        """A model whose embeddings have so many rows."""
        super().__init__()
        self._ids = ids
        self.embeddings = nn.ModuleList(nn.Embedding(ids, _WIDTH, sparse=True) for _ in IDS)
        self.history = nn.EmbeddingBag(ids, _WIDTH, mode="mean", sparse=True, include_last_offset=True)
        first, second = _LAYERS
        self.layers = nn.Sequential(
            nn.Linear((len(IDS) + 1) * _WIDTH + len(ALL_FLOATS), first),
            nn.ReLU(),
            nn.Linear(first, second),
            nn.ReLU(),
            nn.Linear(second, 1),
        )

    def forward(self, batch: Batch) -> torch.Tensor:
        """One score for each row."""
        parts = [
            embedding(batch[name] % self._ids) for name, embedding in zip(IDS, self.embeddings, strict=True)
        ]
        lists = batch[HISTORY]
        parts.append(self.history(lists.values % self._ids, lists.offsets.long()))
        parts.append(torch.stack([batch[name] for name in ALL_FLOATS], dim=1))
        scores: torch.Tensor = self.layers(torch.cat(parts, dim=1))
        return scores[:, 0]


class Trainer:
    """A model, its optimizer and its device. The same seed gives the same weights."""

    def __init__(self, device: torch.device, ids: int, seed: int = 1) -> None:
        torch.manual_seed(seed)
        self.device = device
        self._model = Model(ids).to(device)
        self._optimizer = torch.optim.SGD(self._model.parameters(), lr=0.01)

    def step(self, batch: Batch) -> torch.Tensor:
        """Trains on a batch, and returns its loss, which the device may still be computing."""
        loss = nn.functional.binary_cross_entropy_with_logits(self._model(batch), batch[LABEL].float())
        self._optimizer.zero_grad()
        loss.backward()
        self._optimizer.step()
        return loss.detach()

    def synchronize(self) -> None:
        """Waits until the device has finished its work."""
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
