"""Converts a program's rows to record batches that can be sent."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import Any

import pyarrow as pa

from penstock.errors import Invalid
from penstock.query import invalid
from penstock.sqlrows import SqlRows

# The packages whose data frames export the same rows each time.
_FRAMES = ("pandas", "polars")

# The number of batches of local files that are read before they are sent, and the maximum number of their rows. With smaller
# batches, the allocator reuses memory that the processor still caches, and the server sorts the first rows sooner.
_BATCH_READAHEAD = 2
_BATCH_ROWS = 16_384

_FORMS = "a pyarrow table, a data frame, anything else that exports an Arrow stream, or a generator of record batches"


class Rows:
    """The rows of one call.

    Attributes:
        schema: the schema of the sent batches: top-level dictionaries are sent as their values.
        again: whether a second call of `batches` returns the same rows.
    """

    def __init__(self, data: Any) -> None:
        """Opens the data and reads its schema.

        Raises:
            Invalid: the data cannot be read as record batches.
        """
        self._open, self.again = _opener(data)
        self._opened: tuple[pa.Schema, Iterator[pa.RecordBatch]] | None = self._open()
        self._schema = self._opened[0]
        self.schema = pa.schema([_plain(field) for field in self._schema])

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Returns the batches. If the rows can be read only once, a later call continues the first one."""
        if self._opened is None:
            self._opened = self._open()
        schema, batches = self._opened
        if self.again:
            self._opened = None
        if not schema.equals(self._schema):
            raise invalid("data", "has another schema when it is read again")
        # pyarrow rejects slices of empty view arrays that came through an Arrow stream, so empty batches are skipped.
        return (self._sent(batch) for batch in map(self._checked, batches) if batch.num_rows > 0)

    def _checked(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Returns a batch after checking that its schema equals that of the first batch."""
        if not batch.schema.equals(self._schema):
            raise invalid("data", f"a batch has the schema {batch.schema}, and the first one {self._schema}")
        return batch

    def _sent(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Converts a batch to the sent schema."""
        columns = [
            _values(column, field.type) if isinstance(column, pa.DictionaryArray) else column
            for column, field in zip(batch.columns, self.schema, strict=True)
        ]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)


def _plain(field: pa.Field) -> pa.Field:
    if not pa.types.is_dictionary(field.type):
        return field
    values = field.type.value_type
    return field.with_type(_TAKEN.get(values, values))


# Value types that pyarrow's take does not support, and the types to cast them to.
_TAKEN = {pa.string_view(): pa.large_string(), pa.binary_view(): pa.large_binary()}


def _values(column: pa.DictionaryArray, to: pa.DataType) -> pa.Array:
    """Returns the decoded values of a dictionary column."""
    return column.dictionary.cast(to).take(column.indices)


Opened = tuple[pa.Schema, Iterator[pa.RecordBatch]]


def _opener(data: Any) -> tuple[Callable[[], Opened], bool]:
    """Returns a function that opens the data, and whether it opens the same rows again at a second call."""
    if isinstance(data, SqlRows):
        return lambda: (data.schema, data.batches()), True
    if isinstance(data, pa.Table | pa.RecordBatch) or _is_frame(data):
        return lambda: _stream(data), True
    dataset = sys.modules.get("pyarrow.dataset")
    if dataset is not None and isinstance(data, dataset.Dataset):
        return lambda: _stream(_scanner(data).to_reader()), True
    if dataset is not None and isinstance(data, dataset.Scanner):
        return lambda: _stream(data.to_reader()), False
    if hasattr(data, "__arrow_c_stream__") or hasattr(data, "__arrow_c_array__"):
        return lambda: _stream(data), False
    if callable(data):
        return lambda: _opener(data())[0](), True
    if isinstance(data, str | bytes | dict) or not isinstance(data, Iterable):
        raise invalid("data", f"must be {_FORMS}, not {type(data).__name__}")
    return lambda: _iterated(data), False


def _scanner(data: Any) -> Any:
    """Returns a scanner of a pyarrow dataset."""
    import pyarrow.dataset as ds
    import pyarrow.fs as fs

    if not isinstance(data, ds.FileSystemDataset) or not isinstance(data.filesystem, fs.LocalFileSystem):
        return data.scanner()
    # By default, pyarrow reads whole files ahead, which hides the latency of remote storage. With local files, this only
    # costs memory, and the time to clear it.
    options = (
        ds.ParquetFragmentScanOptions(pre_buffer=False)
        if isinstance(data.format, ds.ParquetFileFormat)
        else None
    )
    return data.scanner(
        batch_size=_BATCH_ROWS,
        batch_readahead=_BATCH_READAHEAD,
        fragment_readahead=1,
        fragment_scan_options=options,
    )


def _is_frame(data: Any) -> bool:
    kind = type(data)
    return kind.__name__ == "DataFrame" and kind.__module__.partition(".")[0] in _FRAMES


def _stream(data: Any) -> Opened:
    """Opens data that exports an Arrow stream or array."""
    if isinstance(data, pa.Table | pa.RecordBatch):
        batches = data.to_batches() if isinstance(data, pa.Table) else [data]
        return data.schema.remove_metadata(), (batch.replace_schema_metadata() for batch in batches)
    if hasattr(data, "__arrow_c_stream__"):
        reader = pa.RecordBatchReader.from_stream(data)
        return reader.schema.remove_metadata(), (batch.replace_schema_metadata() for batch in reader)
    if hasattr(data, "__arrow_c_array__"):
        return _stream(pa.record_batch(data))
    raise invalid("data", f"must be {_FORMS}, not {type(data).__name__}")


def _iterated(data: Iterable[Any]) -> Opened:
    """Opens an iterable of batches, or of other data that exports an Arrow stream."""
    opened = map(_stream, data)
    first = next(opened, None)
    if first is None:
        raise invalid("data", "has no batch, and so no columns; send an empty pyarrow table to name them")
    return first[0], chain(first[1], chain.from_iterable(batches for _, batches in opened))


def parts(batch: pa.RecordBatch, limit: int) -> Iterator[pa.RecordBatch]:
    """Divides a batch by rows into parts that each fit in a message.

    Args:
        batch: the batch.
        limit: the maximum bytes of a message.

    Raises:
        Invalid: a single row does not fit.
    """
    # The estimate nbytes is cheaper than the exact message size but ignores padding, so most parts have half the limit.
    if batch.num_rows == 0:
        return
    if batch.nbytes <= limit // 2 or _fits(batch, limit):
        yield batch
        return
    if batch.num_rows == 1:
        raise Invalid(
            f"a row has {batch.nbytes} bytes, more than the {limit} of a message to this server",
            remedy="raise the server's memory, of which a message may have 1/128, or store less in a row",
        )
    step = max(1, min(batch.num_rows // 2, batch.num_rows * (limit // 2) // batch.nbytes))
    for start in range(0, batch.num_rows, step):
        yield from parts(batch.slice(start, step), limit)


def _fits(batch: pa.RecordBatch, limit: int) -> bool:
    return batch.num_rows == 1 and int(pa.ipc.get_record_batch_size(batch)) <= limit
