"""Client of Penstock: joined training data, streamed as Arrow record batches.

    import penstock

    with penstock.open("penstock.yaml") as client:
        with client.read("homefeed", shard=(0, 4), lanes=4) as stream:
            for batch in stream:  # pyarrow.RecordBatch
                train(batch)
                save(cursor=stream.cursor)

`open` starts a private server, and `connect` uses a running one. Both return a `Client`, whose `read` returns a
`Stream`. Every failure raises a subclass of `Error`.
"""

from penstock.asynchronous import AsyncStream
from penstock.changes import Compacted, Demoted, OrphanFile, OrphanFiles, Promoted, Restored
from penstock.client import Client, connect, open  # noqa: A004 - as gzip.open and others are
from penstock.columnstats import ColumnStatistics, FrequentValue, Histogram, StatisticsSample
from penstock.datasetstats import EntryKeys, EntryStatistics, LabelRelation, LabelStatistics
from penstock.errors import (
    Conflict,
    Corrupt,
    Error,
    Exhausted,
    Expired,
    Fault,
    Forbidden,
    Internal,
    Invalid,
    NotFound,
    Unauthenticated,
    Unavailable,
)
from penstock.evaluation import Evaluation
from penstock.fields import Column, Cursor, Dense, Every, Query, RunQuery, Sample, Shard
from penstock.history import TableDescription, TableSnapshot
from penstock.indexed import expand
from penstock.longcalls import ChangeProgress
from penstock.members import Member
from penstock.mixing import Mix, mix
from penstock.plan import DatasetDescription, Plan
from penstock.splits import Split, Splits
from penstock.staged import Published, ReaderCheck, Staged
from penstock.states import merge_states
from penstock.statscomparison import StatisticsChange, StatisticsComparison
from penstock.status import (
    CacheStatus,
    ConfigStatus,
    MemoryStatus,
    PlanningStatus,
    PlanStatus,
    ServerStatus,
    SlotStatus,
)
from penstock.stream import Stats, Stream
from penstock.streamstatus import StreamLimit, StreamReads, StreamStatus, Waited, Worked
from penstock.tablediff import DiffColumns, DiffFiles, DiffKeys, DiffState, FileCounts, TableDiff
from penstock.tablestats import Alarm, Statistics
from penstock.verification import BrokenLimit, Finding, Verification, VerifiedKeys, VerifiedTable
from penstock.version import __version__

__all__ = [
    "Alarm",
    "AsyncStream",
    "BrokenLimit",
    "CacheStatus",
    "ChangeProgress",
    "Client",
    "Column",
    "ColumnStatistics",
    "Compacted",
    "ConfigStatus",
    "Conflict",
    "Corrupt",
    "Cursor",
    "DatasetDescription",
    "Demoted",
    "Dense",
    "DiffColumns",
    "DiffFiles",
    "DiffKeys",
    "DiffState",
    "EntryKeys",
    "EntryStatistics",
    "Error",
    "Evaluation",
    "Every",
    "Exhausted",
    "Expired",
    "Fault",
    "FileCounts",
    "Finding",
    "Forbidden",
    "FrequentValue",
    "Histogram",
    "Internal",
    "Invalid",
    "LabelRelation",
    "LabelStatistics",
    "Member",
    "MemoryStatus",
    "Mix",
    "NotFound",
    "OrphanFile",
    "OrphanFiles",
    "Plan",
    "PlanStatus",
    "PlanningStatus",
    "Promoted",
    "Published",
    "Query",
    "ReaderCheck",
    "Restored",
    "RunQuery",
    "Sample",
    "ServerStatus",
    "Shard",
    "SlotStatus",
    "Split",
    "Splits",
    "Staged",
    "Statistics",
    "StatisticsChange",
    "StatisticsComparison",
    "StatisticsSample",
    "Stats",
    "Stream",
    "StreamLimit",
    "StreamReads",
    "StreamStatus",
    "TableDescription",
    "TableDiff",
    "TableSnapshot",
    "Unauthenticated",
    "Unavailable",
    "Verification",
    "VerifiedKeys",
    "VerifiedTable",
    "Waited",
    "Worked",
    "__version__",
    "connect",
    "expand",
    "merge_states",
    "mix",
    "open",
]
