"""Record batches as PyTorch tensors.

    from penstock.torch import IterableDataset

    ds = IterableDataset("localhost:8815", "homefeed", batch_rows=8192, nulls={"label": 0})
    for batch in ds:  # a Batch: a dict of tensors
        loss = train(batch)

An `IterableDataset` yields the steps of one rank, to a loop or a DataLoader, and saves its position. A
`Converter` makes tensors from its record batches, and can be used separately:

    with client.read("homefeed", wire="indexed") as stream:
        convert = Converter(stream.schema, nulls={"label": 0}, hash={"country": 1000})
        for batch in stream:
            tensors = convert(batch)  # a Batch: a dict of tensors
            loss = train(tensors.to("cuda", non_blocking=True))

A `Converter` is created once, from a stream's schema and rules for nulls, strings and decimals. It then
rejects whatever it cannot convert, so that names and types of tensors never change between batches.

This package needs PyTorch, `pip install "./python[torch]"` in a checkout; the rest of `penstock` does not
import it.
"""

try:
    import torch as _torch  # noqa: F401 - imported here for a better error if it is missing
except ModuleNotFoundError as missing:
    if missing.name != "torch":
        raise
    raise ModuleNotFoundError(
        "penstock.torch needs PyTorch: pip install 'penstock[torch]'",
        name="torch",
    ) from missing

from penstock.states import merge_states
from penstock.torch.batch import Batch
from penstock.torch.codes import Vocabulary, bucket
from penstock.torch.converter import Converter
from penstock.torch.dataset import IterableDataset
from penstock.torch.deduplicated import Deduplicated
from penstock.torch.jagged import Jagged
from penstock.torch.meter import LoopStats, Steps
from penstock.torch.numbers import Column
from penstock.torch.rules import Rules

__all__ = [
    "Batch",
    "Column",
    "Converter",
    "Deduplicated",
    "IterableDataset",
    "Jagged",
    "LoopStats",
    "Rules",
    "Steps",
    "Vocabulary",
    "bucket",
    "merge_states",
]
