package dataset

// What decoding accepts at most. The limits bound time, memory and stack for
// hostile text; they are far above what a dataset or a query needs.
const (
	maxBytes         = 1 << 20 // of one JSON text
	maxStaging       = 64      // staging tables of a dataset
	maxKeys          = 32      // columns of a join key
	maxColumns       = 10_000  // columns of one list
	maxName          = 1024    // bytes of a name of a table, column, ref or staging table
	maxLanes         = 4096    // lanes of a plan, so also shards and cursors
	maxWorkers       = 4096    // that take the steps of a shard in turn
	maxCounted       = 1 << 50 // rows of a lane: those of all do not overflow
	maxBatchRows     = 1 << 24 // rows of a batch
	maxShuffleWindow = 1 << 24 // rows of a shuffle window
	maxFaults        = 100     // faults that are told one by one

	maxDepth = 32      // nested lists and objects
	maxNodes = 1 << 17 // values in one text, YAML aliases counted as often as they stand
	maxID    = 128     // bytes of a plan's id, a digest, a table's uuid
)
