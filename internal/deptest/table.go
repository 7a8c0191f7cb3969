package deptest

// Row says what the package in one folder may import. Lists are words with
// spaces between them. Standard library imports are free, and files that end
// in _test.go are bound by nothing here.
type Row struct {
	// Folder is the path from the module's root. "tools/..." stands for every
	// folder below tools; those may import each other.
	Folder string
	// Imports lists packages of ours by the last part of their folder. "*" is
	// every package whose own row has no "*": what may know everything is
	// imported only by who names it.
	Imports string
	// Outside lists libraries, by the beginning of their path. They are closed
	// to every package whose row does not list them too. "*" is any library.
	Outside string
}

// Libraries that only some packages may know.
const (
	libAWS         = "github.com/aws"
	libArrowFlight = "github.com/apache/arrow-go/v18/arrow/flight"
	libCobra       = "github.com/spf13"
	libCompress    = "github.com/klauspost/compress"
	libGRPC        = "google.golang.org/grpc"
	libIceberg     = "github.com/apache/iceberg-go"
	libMurmur      = "github.com/twmb/murmur3"
	libParquet     = "github.com/apache/arrow-go/v18/parquet"
	libPostgres    = "github.com/jackc/pgx/v5"
	libPrometheus  = "github.com/prometheus/client_golang"
	libProtobuf    = "google.golang.org/protobuf"
	libRistretto   = "github.com/dgraph-io/ristretto/v2"
	libRoaring     = "github.com/RoaringBitmap/roaring/v2"
	libSQLite      = "modernc.org/sqlite"
	libTesting     = "github.com/stretchr/testify go.uber.org/goleak"
	libYAML        = "go.yaml.in/yaml/v3"
)

// Open lists the libraries that every package may import. A longer path in
// a row of Graph is closed even below one of these.
const Open = "github.com/apache/arrow-go/v18/arrow github.com/cespare/xxhash/v2 " +
	"github.com/google/uuid golang.org/x/sync"

// Graph is who may import whom, from the bottom up.
func Graph() []Row {
	return []Row{
		{Folder: "internal/fault"},
		{Folder: "internal/invariant"},
		{Folder: "internal/release", Imports: "invariant"},
		{Folder: "internal/bucket", Imports: "fault", Outside: libMurmur},
		{Folder: "internal/digest"},

		{Folder: "internal/budget", Imports: "fault invariant"},
		{Folder: "internal/batch", Imports: "budget fault invariant"},
		{Folder: "internal/spool", Imports: "fault invariant"},
		{Folder: "internal/expr", Imports: "fault invariant"},
		{Folder: "internal/store", Imports: "fault invariant"},
		{Folder: "internal/sigv4", Imports: "fault", Outside: libAWS},
		{Folder: "internal/store/s3", Imports: "store fault", Outside: libAWS},
		{Folder: "internal/parquet", Imports: "budget fault invariant store", Outside: libParquet + " " + libCompress},
		{Folder: "cache", Imports: "budget invariant", Outside: libRistretto},

		{Folder: "joiner/rule", Imports: "fault"},
		{Folder: "loader/dataset", Imports: "rule expr fault", Outside: libYAML},
		{Folder: "loader/catalog", Imports: "dataset bucket expr fault store"},
		{Folder: "loader/catalog/locator"},
		{Folder: "loader/catalog/sqlcat", Imports: "catalog locator fault store", Outside: libSQLite + " " + libPostgres},
		{Folder: "loader/catalog/dircat", Imports: "catalog locator fault store"},
		{Folder: "loader/catalog/restcat", Imports: "catalog locator fault"},
		{
			Folder: "loader/catalog/icebergcat", Imports: "catalog locator dircat sqlcat restcat dataset cache expr budget digest fault store",
			Outside: libIceberg + " " + libCompress,
		},
		{Folder: "loader/catalog/pintag", Imports: "catalog dataset"},
		{Folder: "loader/resolve", Imports: "dataset catalog bucket expr fault"},
		{Folder: "loader/plan", Imports: "dataset catalog resolve bucket expr digest fault"},
		{
			Folder: "loader/deletes", Imports: "catalog plan cache store batch budget digest fault invariant",
			Outside: libRoaring,
		},
		{
			Folder:  "loader/scan",
			Imports: "catalog plan deletes cache store parquet batch budget expr bucket digest fault invariant",
		},
		{Folder: "joiner", Imports: "rule batch budget fault invariant"},
		{Folder: "loader/shuffle", Imports: "joiner batch budget fault"},
		{Folder: "joiner/spill", Imports: "joiner batch budget fault invariant"},
		{Folder: "loader/lane", Imports: "batch budget fault invariant"},
		{Folder: "loader/verify", Imports: "dataset catalog resolve plan bucket batch budget fault"},
		{
			Folder:  "loader/buildside",
			Imports: "joiner spill plan resolve catalog cache budget digest fault invariant",
		},
		{
			Folder:  "loader",
			Imports: "dataset catalog resolve plan lane shuffle buildside verify joiner rule spill cache expr batch budget digest fault",
		},

		{
			Folder: "flight", Imports: "loader dataset plan fault",
			Outside: libArrowFlight + " " + libGRPC + " " + libProtobuf,
		},

		{Folder: "internal/config", Imports: "*", Outside: libCobra + " " + libYAML},
		{Folder: "internal/telemetry", Imports: "*", Outside: libPrometheus},
		{Folder: "cmd/penstock", Imports: "* config telemetry", Outside: libAWS + " " + libArrowFlight + " " + libCobra + " " + libGRPC},

		{Folder: "benchmarks/...", Imports: "* gatewaytest", Outside: "*"},
		{Folder: "tools/...", Imports: "*", Outside: "*"},

		// Test kits may know everything, and only tests and other kits know them:
		// that is what their star says.
		// Scenario files hold datasets as YAML, which dataset takes as a node.
		{Folder: "internal/deptest", Imports: "*", Outside: libTesting},
		{Folder: "internal/scenario", Imports: "* catalogtest", Outside: libTesting + " " + libYAML},
		// It writes tables with other libraries than those that read them.
		{
			Folder: "internal/scenario/warehouse", Imports: "* scenario",
			Outside: libIceberg + " " + libParquet + " " + libSQLite + " " + libTesting,
		},
		{Folder: "internal/scenario/exchange", Imports: "* scenario"},
		{Folder: "internal/scenario/fixtures", Imports: "* scenario storetest", Outside: libSQLite},
		{Folder: "internal/docstest", Imports: "*", Outside: libTesting},
		{Folder: "internal/prosetest", Imports: "*", Outside: libTesting},
		{Folder: "internal/spectest", Imports: "*", Outside: libTesting},
		{Folder: "internal/digest/digesttest", Imports: "*", Outside: libTesting},
		{Folder: "internal/parquet/parquettest", Imports: "*", Outside: libParquet},
		{Folder: "internal/store/errstore", Imports: "*"},
		{Folder: "internal/store/s3/gatewaytest", Imports: "*", Outside: libAWS},
		{Folder: "internal/store/storetest", Imports: "*", Outside: libTesting},
		{Folder: "joiner/joinertest", Imports: "*", Outside: libTesting},
		{Folder: "loader/dataset/datasettest", Imports: "*", Outside: libTesting},
		{Folder: "loader/catalog/catalogtest", Imports: "*", Outside: libTesting},
		{Folder: "loader/catalog/restcat/restcattest", Imports: "*"},
		{Folder: "loader/catalog/sqlcat/postgrestest", Imports: "*", Outside: libPostgres + " " + libTesting},
	}
}
