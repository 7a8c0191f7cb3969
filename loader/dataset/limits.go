package dataset

import "github.com/penstock/penstock/internal/expr"

// What decoding accepts at most. The limits bound time, memory and stack for
// hostile text; they are far above what a dataset or a query needs.
const (
	MaxBytes     = 1 << 20 // of one JSON text
	MaxStaging   = 64      // staging tables of a dataset
	MaxKeys      = 32      // columns of a join key
	MaxColumns   = 10_000  // columns of one list
	MaxName      = 1024    // bytes of a name of a table, column, ref or staging table
	MaxLanes     = 4096    // lanes of a plan, so also shards and cursors
	MaxBatchRows = 1 << 24 // rows of a batch
	MaxFaults    = 100     // faults that are told one by one

	maxDepth  = 32               // nested lists and objects
	maxNodes  = 1 << 17          // values in one text, YAML aliases counted as often as they stand
	maxSample = 8 * expr.MaxText // bytes of a sample in a cursor, its filter's quotes escaped
	maxID     = 128              // bytes of a plan's id, a digest, a table's uuid
)
