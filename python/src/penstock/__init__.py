"""Client of Penstock: joined training data, streamed as Arrow record batches.

    import penstock

    with penstock.connect("127.0.0.1:8815") as client:
        with client.read("homefeed", shard=(0, 4), lanes=4) as stream:
            for batch in stream:  # pyarrow.RecordBatch
                train(batch)
                save(cursor=stream.cursor)

`connect` makes a `Client`, its `read` a `Stream`. Every failure is an
`Error`, of the class that says its kind.
"""

from penstock.client import Client, connect
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
from penstock.indexed import expand
from penstock.plan import DatasetDescription, Plan
from penstock.stream import Stream

__all__ = [
    "Client",
    "Conflict",
    "Corrupt",
    "DatasetDescription",
    "Error",
    "Exhausted",
    "Expired",
    "Fault",
    "Forbidden",
    "Internal",
    "Invalid",
    "NotFound",
    "Plan",
    "Stream",
    "Unauthenticated",
    "Unavailable",
    "connect",
    "expand",
]
