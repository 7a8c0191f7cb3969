package decode

// The limits of decoding. They bound time, memory and stack for malicious input, and are
// far above the size of real datasets and queries.
const (
	maxBytes   = 1 << 20 // in one JSON text
	maxKeys    = 32      // columns in a join key
	maxColumns = 10_000  // columns in one list
	maxName    = 1024    // bytes in the name of a table, column, ref or staging table
	maxWorkers = 4096    // DataLoader workers that share the steps of a shard
	maxCounted = 1 << 50 // rows or steps of a lane; neither their sum over all lanes nor a later number of rows overflows
	maxFaults  = 100     // faults reported individually

	maxDepth = 32      // nesting of lists and objects
	maxNodes = 1 << 17 // values in one text, with YAML aliases expanded
	maxID    = 128     // bytes in a plan's id, a digest or a table's uuid
)
