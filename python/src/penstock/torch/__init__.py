"""Record batches as PyTorch tensors.

    from penstock.torch import IterableDataset

    ds = IterableDataset("localhost:8815", "homefeed", batch_rows=8192, nulls={"label": 0})
    for batch in ds:  # a Batch: a dict of tensors
        loss = train(batch)

An `IterableDataset` gives the steps of one rank, to a loop or a DataLoader, and saves where it
stands. What makes tensors of its record batches is a `Converter`, which goes by itself too:

    with client.read("homefeed", wire="indexed") as stream:
        convert = Converter(stream.schema, nulls={"label": 0}, hash={"country": 1000})
        for batch in stream:
            tensors = convert(batch)  # a Batch: a dict of tensors
            loss = train(tensors.to("cuda", non_blocking=True))

A `Converter` is made once, from the schema of a stream and rules for what a schema
leaves open: nulls, strings, decimals. It refuses then what it cannot convert, so that
names and types of tensors never change between batches.

This package needs PyTorch, `pip install "./python[torch]"` in a checkout; the rest of `penstock` does not
import it.
"""

try:
    import torch as _torch  # noqa: F401 - asked for by name, so that what is missing can be said
except ModuleNotFoundError as missing:
    if missing.name != "torch":
        raise
    raise ModuleNotFoundError(
        'penstock.torch needs PyTorch: pip install "./python[torch]" in a checkout of Penstock', name="torch"
    ) from missing

from penstock.states import merge_states
from penstock.torch.batch import Batch
from penstock.torch.codes import Vocabulary, bucket
from penstock.torch.converter import Converter
from penstock.torch.dataset import IterableDataset
from penstock.torch.deduplicated import Deduplicated
from penstock.torch.jagged import Jagged
from penstock.torch.numbers import Column
from penstock.torch.rules import Rules

__all__ = [
    "Batch",
    "Column",
    "Converter",
    "Deduplicated",
    "IterableDataset",
    "Jagged",
    "Rules",
    "Vocabulary",
    "bucket",
    "merge_states",
]
