package deptest

// Row defines what the package in a folder may import. Lists are separated by spaces.
// Imports of the standard library, and of files that end in _test.go, are not
// restricted.
type Row struct {
	// Folder is the path from the module's root.
	Folder string
	// Imports lists packages of the module by the last element of their folder. "*"
	// stands for every package whose own row has no "*"; others must be listed by name.
	Imports string
	// Outside lists libraries, by prefixes of their paths. They are closed to every
	// package whose row does not list them.
	Outside string
}

// Libraries that only some packages may import.
const (
	libAWS         = "github.com/aws"
	libArrowFlight = "github.com/apache/arrow-go/v18/arrow/flight"
	libCobra       = "github.com/spf13"
	libCompress    = "github.com/klauspost/compress"
	libFlatbuffers = "github.com/google/flatbuffers/go"
	libGRPC        = "google.golang.org/grpc"
	libIceberg     = "github.com/apache/iceberg-go"
	libJOSE        = "github.com/go-jose/go-jose/v4"
	libLZ4         = "github.com/pierrec/lz4/v4"
	libMurmur      = "github.com/twmb/murmur3"
	libOTLP        = "go.opentelemetry.io"
	libParquet     = "github.com/apache/arrow-go/v18/parquet"
	libPostgres    = "github.com/jackc/pgx/v5"
	libPrometheus  = "github.com/prometheus/client_golang"
	libProtobuf    = "google.golang.org/protobuf"
	libRistretto   = "github.com/dgraph-io/ristretto/v2"
	libRoaring     = "github.com/RoaringBitmap/roaring/v2"
	libSQLite      = "modernc.org/sqlite"
	libTesting     = "github.com/stretchr/testify go.uber.org/goleak"
	libUnix        = "golang.org/x/sys/unix"
	libXXH3        = "github.com/zeebo/xxh3"
	libYAML        = "go.yaml.in/yaml/v3"
)

// Open lists the libraries that every package may import. A longer path in
// a row of Graph is closed even below one of these.
const Open = "github.com/apache/arrow-go/v18/arrow github.com/cespare/xxhash/v2 " +
	"github.com/google/uuid golang.org/x/sync"

// Graph returns the import table, from the bottom up.
func Graph() []Row {
	return []Row{
		{Folder: "internal/fault"},
		{Folder: "internal/invariant"},
		{Folder: "internal/release", Imports: "invariant"},
		{Folder: "internal/bucket", Imports: "fault", Outside: libMurmur},
		{Folder: "internal/clock"},
		{Folder: "internal/digest"},
		{Folder: "internal/rowdigest", Imports: "digest fault", Outside: libXXH3},
		{Folder: "internal/jsontext"},
		{Folder: "internal/backoff"},
		{Folder: "internal/identity"},
		{Folder: "internal/audit", Imports: "fault"},
		{Folder: "internal/tokens", Imports: "fault"},
		{Folder: "internal/issuer", Imports: "tokens identity fault", Outside: libJOSE},
		{Folder: "internal/hostport"},

		{Folder: "internal/waits"},
		{Folder: "internal/trace"},
		{Folder: "internal/budget", Imports: "waits fault invariant release"},
		{Folder: "internal/cores", Imports: "fault invariant"},
		{Folder: "internal/batch", Imports: "budget cores fault invariant"},
		{Folder: "internal/theta", Imports: "fault", Outside: libMurmur},
		{Folder: "internal/stats", Imports: "batch theta fault", Outside: libXXH3},
		{Folder: "internal/fitted", Imports: "budget expr fault"},
		{Folder: "internal/puffin", Imports: "fault"},
		{Folder: "internal/svg"},
		{Folder: "internal/drift", Imports: "stats"},
		{Folder: "internal/tensor", Imports: "bucket cores fault invariant"},
		{Folder: "internal/spool", Imports: "batch fault invariant"},
		{Folder: "internal/sortkey", Imports: "fault"},
		{Folder: "internal/conform", Imports: "batch fault"},
		{Folder: "internal/segment", Imports: "budget", Outside: libUnix},
		{Folder: "internal/expr/operator", Imports: "fault"},
		{Folder: "internal/expr/function", Imports: "operator batch bucket fault"},
		{Folder: "internal/expr", Imports: "function operator batch fault invariant"},
		{Folder: "internal/store", Imports: "fault invariant trace waits release"},
		{Folder: "internal/sigv4", Imports: "fault", Outside: libAWS},
		{Folder: "internal/store/s3", Imports: "store backoff fault trace waits release", Outside: libAWS},
		{Folder: "internal/parquet/thrift"},
		{Folder: "internal/parquet/page", Imports: "thrift", Outside: libParquet + " " + libCompress},
		{Folder: "internal/parquet/decoder", Imports: "thrift page batch fault", Outside: libParquet},
		{Folder: "internal/parquet/charged", Imports: "release"},
		{Folder: "internal/parquet/convert", Imports: "charged batch fault"},
		{Folder: "internal/parquet", Imports: "thrift page decoder charged convert batch budget cores fault invariant store waits", Outside: libParquet},
		{Folder: "internal/parquet/chunk", Imports: "fault", Outside: libParquet},
		{Folder: "internal/parquet/write", Imports: "chunk batch fault", Outside: libParquet},
		{Folder: "internal/parquet/foreign", Imports: "batch budget fault parquet", Outside: libParquet},
		{Folder: "internal/parquet/extend", Imports: "write chunk parquet budget store fault", Outside: libParquet},
		{Folder: "cache", Imports: "budget invariant release", Outside: libRistretto},
		{Folder: "cache/disk", Imports: "batch budget digest fault invariant store"},

		{Folder: "joiner/rule", Imports: "fault"},
		{Folder: "loader/dataset", Imports: "rule expr fitted fault"},
		{Folder: "loader/policy", Imports: "dataset identity"},
		{Folder: "loader/dataset/decode", Imports: "dataset policy rule expr fitted fault", Outside: libYAML},
		{Folder: "loader/catalog", Imports: "dataset bucket expr fault release store"},
		{Folder: "loader/catalog/locator"},
		{Folder: "loader/catalog/commit", Imports: "catalog dataset digest fault"},
		{Folder: "loader/catalog/history", Imports: "catalog commit dataset fault"},
		{Folder: "loader/catalog/sqlcat", Imports: "catalog locator fault store", Outside: libSQLite + " " + libPostgres},
		{Folder: "loader/catalog/tablestore", Imports: "locator fault store"},
		{Folder: "loader/catalog/dircat", Imports: "catalog locator fault store"},
		{Folder: "loader/catalog/restcat", Imports: "catalog locator backoff fault store"},
		{
			Folder: "loader/catalog/icebergcat/metafile", Imports: "budget fault",
			Outside: libCompress,
		},
		{Folder: "loader/catalog/icebergcat/column", Imports: "catalog metafile fault", Outside: libIceberg},
		{Folder: "loader/catalog/icebergcat/manifests", Imports: "catalog commit", Outside: libIceberg},
		{
			Folder: "loader/catalog/icebergcat/metadata", Imports: "catalog commit history metafile column locator tablestore dataset cache budget digest fault store",
			Outside: libIceberg,
		},
		{Folder: "loader/catalog/icebergcat/listing", Imports: "catalog commit metadata metafile column dataset expr budget digest fault store", Outside: libIceberg},
		{Folder: "loader/catalog/icebergcat/revision", Imports: "commit metadata metafile column locator fault", Outside: libIceberg},
		{
			Folder: "loader/catalog/icebergcat/commits", Imports: "catalog commit metadata listing revision manifests metafile column locator tablestore dataset backoff budget fault puffin store",
			Outside: libIceberg,
		},
		{Folder: "loader/catalog/icebergcat/tags", Imports: "catalog metadata revision commits locator backoff fault", Outside: libIceberg},
		{
			Folder:  "loader/catalog/icebergcat",
			Imports: "catalog history metadata listing commits tags locator tablestore dircat sqlcat restcat dataset cache budget fault store",
		},
		{Folder: "loader/partition", Imports: "catalog bucket fault"},
		{Folder: "loader/extsort", Imports: "partition conform sortkey batch budget fault invariant"},
		{Folder: "loader/keyset", Imports: "bucket batch budget fault"},
		{Folder: "loader/catalog/pintag", Imports: "catalog dataset release"},
		{Folder: "loader/resolve", Imports: "dataset policy catalog bucket expr fault"},
		{Folder: "loader/plan", Imports: "dataset catalog resolve bucket expr digest fault"},
		{Folder: "loader/plan/shape", Imports: "plan catalog"},
		{Folder: "loader/plan/coverage", Imports: "plan resolve catalog"},
		{Folder: "loader/plan/explain", Imports: "plan dataset catalog resolve fault"},
		{Folder: "loader/plan/scale", Imports: "plan dataset catalog resolve fault"},
		{Folder: "loader/compact", Imports: "catalog"},
		{Folder: "loader/upload", Imports: "chunk budget store release"},
		{Folder: "loader/transaction", Imports: "upload commit backoff fault"},
		{Folder: "loader/datafile", Imports: "catalog commit extsort partition sortkey conform upload write chunk batch budget store fault"},
		{Folder: "loader/stage", Imports: "datafile transaction plan keyset dataset catalog commit extsort sortkey bucket batch conform expr rowdigest digest budget jsontext fault"},
		{Folder: "loader/maintenance", Imports: "datafile transaction compact plan dataset catalog commit extsort bucket batch budget fault"},
		{Folder: "loader/statistics", Imports: "resolve plan dataset policy catalog history disk stats drift budget cores digest fault", Outside: libXXH3},
		{Folder: "loader/statistics/htmlpage", Imports: "statistics entries stats drift svg fault"},
		{Folder: "loader/tablediff", Imports: "datafile plan dataset catalog history extsort sortkey conform batch fault"},
		{
			Folder: "loader/deletes", Imports: "catalog plan cache batch budget digest fault invariant release",
			Outside: libRoaring,
		},
		{Folder: "loader/repoint", Imports: "deletes catalog write store budget fault"},
		{Folder: "loader/scan/chunkcache", Imports: "batch budget"},
		{
			Folder:  "loader/scan",
			Imports: "chunkcache catalog plan deletes cache store parquet batch budget cores waits trace expr bucket digest fault invariant release",
		},
		{Folder: "joiner", Imports: "rule batch budget fault invariant"},
		{Folder: "loader/shuffle", Imports: "joiner batch budget cores fault"},
		{Folder: "joiner/spill", Imports: "joiner batch budget waits fault invariant"},
		{Folder: "loader/lane", Imports: "batch budget cores trace waits fault invariant"},
		{Folder: "loader/orphans", Imports: "budget fault store"},
		{Folder: "loader/verify", Imports: "dataset catalog resolve plan coverage rule bucket batch drift budget fault"},
		{
			Folder:  "loader/buildside",
			Imports: "joiner spill plan resolve catalog cache budget waits trace digest fault invariant release",
		},
		{
			Folder:  "loader/joined",
			Imports: "dataset catalog resolve plan lane buildside joiner rule spill expr cache batch budget trace digest fault",
		},
		{
			Folder:  "loader/stream",
			Imports: "dataset plan resolve lane shuffle joined buildside joiner rule batch budget cores fault release",
		},
		{
			Folder:  "loader",
			Imports: "batch dataset policy catalog resolve plan joined stream verify joiner spill cache drift budget cores digest fault release",
		},
		{Folder: "loader/statistics/entries", Imports: "loader statistics stream resolve policy partition verify catalog dataset rule stats drift batch budget fault"},
		{Folder: "loader/staged", Imports: "loader catalog commit stage plan keyset policy dataset rule budget fault"},
		{Folder: "loader/fanout", Imports: "loader stream lane plan dataset batch budget waits trace digest fault"},
		{
			Folder:  "loader/promote",
			Imports: "loader stream datafile repoint transaction upload extend write deletes plan resolve catalog commit dataset rule budget store digest fault release",
		},

		{Folder: "flight/local", Imports: "fault segment", Outside: libUnix},
		{Folder: "flight/blocks", Imports: "local tensor segment budget cores fault"},
		{Folder: "flight/limits"},
		{Folder: "flight/slowness", Imports: "waits fault"},
		{Folder: "flight/admission", Imports: "limits dataset budget waits fault", Outside: libGRPC},
		{Folder: "flight/failure", Imports: "commit jsontext fault", Outside: libGRPC},
		{Folder: "flight/ticket", Imports: "plan dataset decode jsontext fault"},
		{Folder: "flight/frames", Imports: "batch cores waits fault", Outside: libGRPC + " " + libProtobuf},
		{Folder: "flight/inbound", Imports: "limits frames fault", Outside: libGRPC + " " + libUnix},
		{
			Folder: "flight/rowsin", Imports: "batch budget conform fault",
			Outside: libArrowFlight + " " + libCompress + " " + libFlatbuffers + " " + libGRPC + " " + libLZ4 + " " + libProtobuf,
		},
		{Folder: "flight/silence", Outside: libGRPC},
		{
			Folder: "flight/receive", Imports: "blocks local frames inbound rowsin failure silence budget cores fault",
			Outside: libGRPC,
		},
		{
			Folder: "flight/call", Imports: "limits inbound rowsin ticket loader dataset decode policy audit identity fault",
			Outside: libArrowFlight,
		},
		{Folder: "flight/progress", Imports: "call datafile jsontext", Outside: libArrowFlight},
		{Folder: "flight/access", Imports: "call failure ticket stream dataset policy audit fault", Outside: libGRPC},
		{
			Folder: "flight/changes", Imports: "access call progress failure limits rowsin dataset decode policy stage maintenance datafile orphans promote history commit budget drift waits audit jsontext fault",
			Outside: libArrowFlight + " " + libGRPC,
		},
		{Folder: "flight/describe", Imports: "access call progress failure dataset decode policy statistics entries htmlpage audit budget fault"},
		{
			Folder: "flight", Imports: "access call changes describe progress failure limits slowness admission ticket frames inbound local blocks loader stream dataset decode plan explain shape scale coverage policy history tablediff rule batch budget cores waits trace backoff fault identity audit jsontext segment",
			Outside: libArrowFlight + " " + libGRPC + " " + libProtobuf,
		},

		{Folder: "internal/config", Imports: "*", Outside: libCobra + " " + libYAML},
		{Folder: "internal/telemetry/otlp", Imports: "trace backoff budget fault", Outside: libGRPC + " " + libOTLP},
		{Folder: "internal/telemetry", Imports: "* otlp", Outside: libPrometheus},
		{Folder: "cmd/penstock/rowformat", Imports: "parquet batch jsontext fault"},
		{Folder: "cmd/penstock/outfile", Imports: "fault"},
		{Folder: "cmd/penstock/bar"},
		{Folder: "cmd/penstock/keyfile", Imports: "fault"},
		{Folder: "cmd/penstock/owners", Imports: "fault"},
		{Folder: "cmd/penstock/inputs", Imports: "foreign rowsin store batch budget fault", Outside: libCompress},
		{Folder: "cmd/penstock/compute", Imports: "expr conform batch budget fault"},
		{Folder: "cmd/penstock/duckdb", Imports: "inputs dataset spool parquet batch budget digest fault"},
		{Folder: "cmd/penstock/watch"},
		{Folder: "cmd/penstock/servertls", Imports: "keyfile fault"},
		{Folder: "cmd/penstock/jwks", Imports: "backoff hostport fault"},
		{Folder: "cmd/penstock/webserver"},
		{Folder: "cmd/penstock/socket", Imports: "config fault release"},
		{Folder: "cmd/penstock/cmdline", Imports: "config dataset decode fault", Outside: libCobra},
		{Folder: "cmd/penstock/client", Imports: "coverage flight changes progress failure silence loader history statistics entries tablediff dataset decode stage backoff batch fault hostport", Outside: libArrowFlight + " " + libGRPC},
		{Folder: "cmd/penstock/statustext", Imports: "flight slowness fault"},
		{Folder: "third_party/uplot"},
		{Folder: "cmd/penstock/openpage", Imports: "fault"},
		{Folder: "cmd/penstock/planpicture", Imports: "flight shape svg fault"},
		{Folder: "cmd/penstock/children", Imports: "progress fault"},
		{Folder: "cmd/penstock/ui", Imports: "children changes promote client cmdline planpicture statustext flight progress loader coverage stage verify commit history dataset decode htmlpage uplot svg jsontext fault"},
		{Folder: "cmd/penstock/proposal", Imports: "loader dataset catalog resolve fault"},
		{Folder: "cmd/penstock/backfill", Imports: "proposal dataset decode catalog resolve rule fault"},
		{Folder: "cmd/penstock/engine", Imports: "* config telemetry otlp keyfile socket inputs"},
		{Folder: "cmd/penstock/auth", Imports: "flight ticket loader policy audit identity issuer tokens config telemetry keyfile watch servertls jwks webserver socket fault"},
		{Folder: "cmd/penstock/complete", Imports: "client cmdline engine decode config", Outside: libCobra},
		{Folder: "cmd/penstock/difftext", Imports: "tablediff fault"},
		{Folder: "cmd/penstock/reload", Imports: "flight loader dataset config telemetry auth watch fault"},
		{Folder: "cmd/penstock", Imports: "* config telemetry engine auth", Outside: libAWS + " " + libCobra + " " + libGRPC},

		// Test kits may import everything, but only tests and other kits may import
		// them: therefore each has a star.
		// Scenario files contain datasets as YAML, which decode takes as a node.
		{Folder: "internal/deptest", Imports: "*", Outside: libTesting},
		{Folder: "internal/telemetry/otlp/otlptest", Imports: "*", Outside: libGRPC + " " + libOTLP + " " + libTesting},
		{Folder: "internal/scenario/cell", Imports: "* datasettest"},
		{Folder: "internal/scenario", Imports: "* catalogtest datasettest cell", Outside: libTesting + " " + libYAML},
		// It writes tables with other libraries than the product reads them with.
		{
			Folder: "internal/scenario/warehouse", Imports: "* scenario",
			Outside: libIceberg + " " + libParquet + " " + libSQLite + " " + libTesting,
		},
		{Folder: "internal/scenario/exchange", Imports: "* scenario"},
		{Folder: "internal/scenario/fixtures", Imports: "* catalogtest datasettest scenario cell storetest", Outside: libSQLite},
		{Folder: "internal/docstest", Imports: "*", Outside: libTesting},
		{Folder: "internal/spectest", Imports: "*", Outside: libTesting},
		{Folder: "internal/batch/batchtest", Imports: "*"},
		{Folder: "internal/bucket/buckettest", Imports: "*"},
		{Folder: "internal/certtest", Imports: "*"},
		{Folder: "internal/digest/digesttest", Imports: "*", Outside: libTesting},
		{Folder: "internal/parquet/parquettest", Imports: "*", Outside: libParquet},
		{Folder: "internal/segment/segmenttest", Imports: "*", Outside: libTesting + " " + libUnix},
		{Folder: "internal/store/errstore", Imports: "*"},
		{Folder: "internal/store/s3/gatewaytest", Imports: "*", Outside: libAWS},
		{Folder: "internal/store/storetest", Imports: "*", Outside: libTesting},
		{Folder: "flight/damage"},
		{Folder: "flight/flighttest", Imports: "*", Outside: libTesting + " " + libArrowFlight + " " + libGRPC},
		{Folder: "flight/rawclient"},
		{Folder: "flight/ticket/tickettest", Imports: "* datasettest", Outside: libTesting},
		{Folder: "flight/local/localtest", Imports: "* segmenttest", Outside: libTesting},
		{Folder: "joiner/joinertest", Imports: "*", Outside: libTesting},
		{Folder: "loader/loadertest", Imports: "* catalogtest errstore parquettest scenario storetest", Outside: libTesting},
		{Folder: "loader/plan/plantest", Imports: "*"},
		{Folder: "loader/dataset/datasettest", Imports: "*", Outside: libTesting},
		{Folder: "loader/catalog/catalogtest", Imports: "*", Outside: libTesting},
		{Folder: "loader/stage/stagetest", Imports: "* errstore parquettest", Outside: libIceberg + " " + libSQLite + " " + libTesting},
		{Folder: "loader/catalog/icebergcat/icebergtest", Imports: "* catalogtest restcattest postgrestest", Outside: libIceberg + " " + libTesting},
		{Folder: "loader/catalog/restcat/restcattest", Imports: "*"},
		{Folder: "loader/catalog/sqlcat/postgrestest", Imports: "*", Outside: libPostgres + " " + libTesting},
	}
}
