"""Every query of the dashboard and the alerts on a real Prometheus; alerts fire for faults, and for nothing else."""

from __future__ import annotations

import base64
import json
import random
import re
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import lake
import monitored
import pyarrow as pa
import pytest
import rest_catalog
from accidents import Answer, storage
from accidents import Server as HTTPServer
from bucket_lake import BucketLake, bucket_lake
from monitored import Faults, Prometheus
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import BucketTransform
from pyiceberg.types import DoubleType, ListType, LongType, NestedField, StringType
from server import BINARY, Server

import penstock

pytestmark = pytest.mark.more

CASES = Path(__file__).with_name("alert_cases.yaml")
ROWS, REQUESTS = 20_000, 4_000
DATASET = {
    "training": {"table": "features.events"},
    "key": ["request_id"],
    "staging": [{"table": "features.scores"}],
}


class Site:
    """Tables on S3 behind a REST catalog, one server of them, and a Prometheus that scrapes it.

    Attributes:
        s3: faults of requests to S3.
        catalog: faults of requests to the catalog.
    """

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self.folder, self._stack, self._port = folder, stack, monitored.free_port()
        self.s3, self.catalog = Faults(), Faults()
        self.bucket = stack.enter_context(bucket_lake(folder / "lake", rest=True))
        write(self.bucket)
        self.bucket.datasets({"d": DATASET})
        self.config = folder / "penstock.yaml"
        config = json.loads((folder / "lake" / "penstock.yaml").read_text())
        keys = {
            "s3.region": "us-east-1",
            "s3.access-key-id": "testaccess",
            "s3.secret-access-key": "testsecret12",
        }
        keys["s3.endpoint"] = stack.enter_context(storage(self.bucket.endpoint, self.s3)).uri
        served = stack.enter_context(rest_catalog.serve(self.bucket.catalog, keys, self.catalog))
        block = config["catalogs"]["default"]
        block["uri"], block["pin_tags"] = served.uri, {"keep": "1h"}
        self.config.write_text(json.dumps(config))

    def serve(self, *flags: str) -> Server:
        """Starts the server."""
        return self._stack.enter_context(
            Server(self.config, "--metrics", f"127.0.0.1:{self._port}", "--storage-timeout", "10s", *flags)
        )

    def watch(self, replacements: dict[str, str], hold: int = 2) -> Prometheus:
        """Starts Prometheus."""
        rules = monitored.shortened(replacements, hold)
        return self._stack.enter_context(Prometheus(self.folder / "prometheus", self._port, rules))


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    with ExitStack() as stack:
        yield Site(tmp_path, stack)


def write(bucket: BucketLake) -> None:
    """Writes a training table and a staging table."""
    rng = random.Random(3)
    events = [{"request_id": rng.randrange(REQUESTS), "items": list(range(50))} for _ in range(ROWS)]
    scores = [{"request_id": r, "score": rng.random()} for r in range(REQUESTS) if r % 5]
    items = ListType(element_id=900, element_type=LongType(), element_required=False)
    for name, more, rows in (
        ("events", ("items", items), events),
        ("scores", ("score", DoubleType()), scores),
    ):
        schema = Schema(
            NestedField(1, "request_id", LongType(), required=False),
            NestedField(2, more[0], more[1], required=False),
        )
        spec = PartitionSpec(PartitionField(1, 1000, BucketTransform(4), "request_id_bucket"))
        table = bucket.catalog.create_table(f"features.{name}", schema, partition_spec=spec)
        table.append(pa.Table.from_pylist(rows, schema_to_pyarrow(table.schema())))


def issuer_keys(folder: Path) -> bytes:
    """The keys of a token issuer, as it publishes them."""
    key = folder / "issuer.key"
    subprocess.run(["openssl", "genrsa", "-out", str(key), "2048"], check=True, capture_output=True)
    shown = subprocess.run(
        ["openssl", "rsa", "-in", str(key), "-noout", "-modulus"], check=True, capture_output=True, text=True
    )
    modulus = base64.urlsafe_b64encode(bytes.fromhex(shown.stdout.strip().partition("=")[2])).rstrip(b"=")
    one = {"kty": "RSA", "use": "sig", "alg": "RS256", "kid": "k1", "n": modulus.decode(), "e": "AQAB"}
    return json.dumps({"keys": [one]}).encode()


@contextmanager
def issuer(folder: Path) -> Iterator[list[str]]:
    """The flags of a server that accepts the tokens of an issuer."""
    keys = issuer_keys(folder)
    with HTTPServer(lambda *_: Answer(200, keys, [("Content-Type", "application/json")])) as served:
        uri = f"{served.uri}/keys"
        yield ["--jwt-issuer", served.uri, "--jwt-audience", "penstock", "--jwt-keys", uri]


def certificate(folder: Path, days: int) -> list[str]:
    """The flags of a server with a certificate for localhost."""
    command = (
        "openssl req -x509 -newkey rsa:2048 -nodes -subj /CN=localhost -addext subjectAltName=DNS:localhost"
    )
    key, cert = folder / "server.key", folder / "server.pem"
    files = ["-days", str(days), "-keyout", str(key), "-out", str(cert)]
    subprocess.run([*command.split(), *files], check=True, capture_output=True)
    return ["--tls-cert", str(cert), "--tls-key", str(key)]


def token(folder: Path) -> tuple[str, list[str]]:
    """A token, and the flags of a server that accepts it."""
    tokens = folder / "server.tokens"
    command = [str(BINARY), "token", "new", "--subject", "trainers", "--tokens", str(tokens)]
    made = subprocess.run(command, check=True, capture_output=True, text=True)
    return made.stdout.strip(), ["--tokens", str(tokens)]


def reported(client: penstock.Client, waited: float) -> None:
    """Reports a trainer that waits for a share of its time."""
    report = {"dataset": "d", "plan": "p", "rows": 1, "batches": 1, "seconds": 1.0, "waited": waited}
    client._tell("stall", report, timeout=10)


def staged(client: penstock.Client) -> None:
    """Writes rows to a table."""
    rows = pa.table({"request_id": [1, 2], "more": [1.0, 2.0]})
    client.stage("features.more", rows, key=["request_id"], buckets=4)


def test_queries_have_results_and_nothing_fires_without_a_fault(site: Site) -> None:
    secret, flags = token(site.folder)
    flags += certificate(site.folder, 365)
    policy = site.folder / "policy.yaml"
    rule = {"subjects": ["*"], "read": ["*"], "write": ["*"], "allow": ["stage"]}
    policy.write_text(json.dumps({"rules": [rule]}))
    flags += ["--policy", str(policy), "--trace", f"http://127.0.0.1:{monitored.free_port()}"]
    flags += [
        "--cache-dir",
        str(site.folder / "columns"),
        "--cache-disk",
        "64MiB",
        "--local-socket",
        str(site.folder / "private" / "local.sock"),
    ]
    with issuer(site.folder) as more:
        server = site.serve(*flags, *more)
        prometheus = site.watch({}, hold=10)
        port = server.address.rpartition(":")[2]
        roots = (site.folder / "server.pem").read_bytes()
        with penstock.connect(
            f"grpc+tls://localhost:{port}", tls_roots=roots, token=secret, timeout=30
        ) as client:

            def read() -> None:
                assert client.read("d", job="healthy").read_all().num_rows == ROWS

            with monitored.repeated(read, read, lambda: reported(client, 0.01), lambda: staged(client)):
                queries = monitored.dashboard_queries()
                empty: dict[str, str] = {}

                def complete() -> bool:
                    empty.clear()
                    empty.update({name: expr for name, expr in queries.items() if not prometheus.query(expr)})
                    return not empty

                monitored.until(complete, lambda: f"queries without a result: {empty}")
                names = {name for expr in monitored.rules().values() for name in monitored.metrics(expr)}
                assert not [name for name in names if not prometheus.query(name)]
                written = 'penstock_calls_total{method="DoPut",end="ok"} > 0'
                monitored.until(lambda: bool(prometheus.query(written)), "no rows are written")
                begun = prometheus.query("count_over_time(up[1h])")[0]["value"][1]
                monitored.until(
                    lambda: (
                        int(prometheus.query("count_over_time(up[1h])")[0]["value"][1]) >= int(begun) + 20
                    ),
                    "Prometheus does not scrape",
                )
        assert prometheus.ever_fired() == set()


def read(client: penstock.Client, **query: Any) -> None:
    """Reads all rows, without repeating what fails."""
    with client.read("d", **query) as stream:
        stream.read_all()


def test_servers_that_end_or_restart(site: Site) -> None:
    prometheus = site.watch({})
    for _ in range(4):
        server = site.serve()
        monitored.until(lambda: bool(prometheus.query("up == 1")), "the server is not scraped")
        server.kill()
        monitored.until(lambda: bool(prometheus.query("up == 0")), "the server is still scraped")
    prometheus.fires("PenstockDown", "PenstockRestarts")


def test_storage_that_fails_hangs_or_is_slow(site: Site) -> None:
    prometheus = site.watch({"> 600": "> 3"})
    server = site.serve("--cache-memory", "0")
    with (
        penstock.connect(server.address, timeout=60, reconnect=0) as client,
        monitored.repeated(lambda: read(client)),
    ):
        monitored.until(lambda: bool(prometheus.query("penstock_rows_sent_total > 0")), "nothing is read")
        site.s3.delay = 3
        prometheus.fires("PenstockStorageSlow")
        site.s3.delay = 0
        site.s3.open.clear()
        prometheus.fires("PenstockStreamStuck", "PenstockStreamsStarve")
        site.s3.open.set()
        site.s3.dead = True
        prometheus.fires("PenstockStorageFails", "PenstockCallsFail")
        site.s3.dead = False


def test_catalogs_that_fail(site: Site) -> None:
    prometheus = site.watch({})
    server = site.serve()
    with (
        penstock.connect(server.address, timeout=60, reconnect=0) as client,
        monitored.repeated(lambda: read(client)),
    ):
        monitored.until(lambda: bool(prometheus.query("penstock_rows_sent_total > 0")), "nothing is read")
        site.catalog.dead = True
        prometheus.fires("PenstockCatalogFails", "PenstockCallsFail")
        site.catalog.dead, site.catalog.delay = False, 3
        prometheus.fires("PenstockCatalogSlow")


def test_data_that_is_damaged(site: Site) -> None:
    prometheus = site.watch({})
    server = site.serve("--cache-memory", "0")
    with (
        penstock.connect(server.address, timeout=60, reconnect=0) as client,
        monitored.repeated(lambda: read(client)),
    ):
        monitored.until(lambda: bool(prometheus.query("penstock_rows_sent_total > 0")), "nothing is read")
        for path in (site.folder / "lake" / "s3" / "lake").rglob("events/data/**/*.parquet"):
            content = bytearray(path.read_bytes())
            content[4 : len(content) // 2] = bytes(len(content) // 2 - 4)
            path.write_bytes(content)
        prometheus.fires("PenstockDataCorrupt")


def test_trainers_that_wait_and_features_that_are_missing(site: Site) -> None:
    prometheus = site.watch({})
    server = site.serve()
    with penstock.connect(server.address, timeout=60) as client:
        with monitored.repeated(lambda: reported(client, 0.9)):
            prometheus.fires("PenstockTrainersWait")
        with monitored.repeated(lambda: read(client)):
            monitored.until(
                lambda: bool(prometheus.query("count_over_time(penstock_staging_match_rate[1h]) > 10")),
                "no stream ends",
            )
        with monitored.repeated(lambda: read(client, filter="request_id % 5 = 0")):
            prometheus.fires("PenstockMatchRateFell")


def test_calls_that_are_refused(site: Site) -> None:
    _, flags = token(site.folder)
    prometheus = site.watch({})
    server = site.serve(*flags)
    with penstock.connect(server.address, token="pst_wrong") as client, monitored.repeated(client.datasets):
        prometheus.fires("PenstockRefusals")


def test_files_and_keys_that_are_not_replaced(site: Site) -> None:
    prometheus = site.watch({"> 3600": "> 3"})
    with issuer(site.folder) as flags:
        site.serve(*flags, *certificate(site.folder, 1))
        site.config.write_text("datasets: [")
        prometheus.fires("PenstockFilesRefused", "PenstockCertificateExpires", "PenstockIssuerKeysOld")


def test_memory_that_is_full(site: Site) -> None:
    # Without the constant, the memory that each process needs is more than the budget explains.
    prometheus = site.watch({"+ 268435456": ""})
    server = site.serve(
        "--memory",
        "24MiB",
        "--cache-memory",
        "0",
        "--share-batches",
        "0",
        "--max-streams",
        "64",
        "--max-peer-share",
        "100",
    )
    with (
        penstock.connect(server.address, timeout=60, reconnect=0) as client,
        monitored.repeated(*[lambda: read(client, batch_rows=4000, lanes=4)] * 24),
    ):
        prometheus.fires("PenstockMemoryBeyondBudget", "PenstockMemoryFull")


def test_disk_that_is_full(tmp_path: Path) -> None:
    rng, keys = random.Random(1), 40_000
    made = lake.Lake(tmp_path / "lake")
    rows = [{"k": rng.randrange(keys)} for _ in range(ROWS)]
    made.write("ml.events", {"k": LongType()}, ("k", 1), rows)
    texts = [{"k": k, "text": f"{k}-" * 40} for k in range(keys)]
    made.write("features.texts", {"k": LongType(), "text": StringType()}, ("k", 1), texts)
    dataset = {"training": {"table": "ml.events"}, "key": ["k"], "staging": [{"table": "features.texts"}]}
    port, rules = (
        monitored.free_port(),
        monitored.shortened({"> 0.9 * penstock_spool": "> 0.1 * penstock_spool"}, hold=0),
    )
    flags = ["--memory", "12MiB", "--cache-memory", "0", "--share-batches", "0", "--spool-limit", "64MiB"]
    with (
        Server(made.config({"d": dataset}), "--metrics", f"127.0.0.1:{port}", *flags) as server,
        Prometheus(tmp_path / "prometheus", port, rules) as prometheus,
        penstock.connect(server.address, timeout=60, reconnect=0) as client,
        monitored.repeated(lambda: read(client), lambda: read(client)),
    ):
        prometheus.fires("PenstockSpoolFull")


def test_rules_and_their_cases() -> None:
    """Synthetic series: each alert fires after its time, and none in a healthy hour."""
    for command in (["check", "rules", str(monitored.ALERTS)], ["test", "rules", str(CASES)]):
        done = subprocess.run([monitored.program("promtool"), *command], capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
    _, healthy = CASES.read_text().split("name: a healthy hour")
    for name, expr in monitored.rules().items():
        assert all(f"{series}{{" in healthy for series in monitored.metrics(expr)), name
    named = set(re.findall(r'alertname="(\w+)"', CASES.read_text()))
    assert named == set(monitored.rules())
