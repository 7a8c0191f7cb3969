// Package slowness says what limits the speed of a stream, and what to do about it. Its answers follow from counters alone, so the same
// counters give the same answer in the status, on pages and in programs.
package slowness

// Cause is what limits a stream.
type Cause string

// The causes. docs/slow.md explains each.
const (
	Trainer          Cause = "trainer"
	Network          Cause = "network"
	Slot             Cause = "slot"
	Memory           Cause = "memory"
	InFlight         Cause = "memory in flight"
	Stream           Cause = "stream"
	Deletes          Cause = "deletes"
	StorageErrors    Cause = "storage errors"
	StorageLatency   Cause = "storage latency"
	StorageBandwidth Cause = "storage bandwidth"
	SmallReads       Cause = "small reads"
	Plan             Cause = "plan"
	Spill            Cause = "spill"
	Decode           Cause = "decode"
	Build            Cause = "build"
	Compute          Cause = "compute"
	Join             Cause = "join"
	Send             Cause = "send"
	Cores            Cause = "cores"
)

// Causes returns all causes.
func Causes() []Cause {
	return []Cause{
		Trainer, Network, Slot, Memory, InFlight, Stream, Deletes, StorageErrors, StorageLatency, StorageBandwidth, SmallReads,
		Plan, Spill, Decode, Build, Compute, Join, Send, Cores,
	}
}

// Meaning says what a cause is; "" for an unknown one.
func (c Cause) Meaning() string {
	switch c {
	case Trainer:
		return "the client has not taken the last batch: the server is faster than the training loop"
	case Network:
		return "the connection to the client takes no more bytes"
	case Slot:
		return "max_streams streams are open"
	case Memory:
		return "the memory budget has no room"
	case InFlight:
		return "batches that other clients have not taken fill the memory for batches in flight"
	case Stream:
		return "another stream reads rows that both need"
	case Deletes:
		return "delete files of tables are opened and read"
	case StorageErrors:
		return "storage throttles or fails requests, which are repeated"
	case StorageLatency:
		return "storage takes long until it sends the first byte"
	case StorageBandwidth:
		return "storage sends bytes slowly"
	case SmallReads:
		return "storage is fast, but each request reads few bytes: files or row groups are small"
	case Plan:
		return "the query is planned: the catalog and the table's metadata are read"
	case Spill:
		return "build sides do not fit in memory, and are joined on local disk"
	case Decode:
		return "rows of files are decoded and filtered"
	case Build:
		return "staging rows are indexed by key"
	case Compute:
		return "expressions of computed columns are evaluated"
	case Join:
		return "rows are joined, put in order and cut into batches"
	case Send:
		return "batches are encoded and handed to the transport; work of no other kind also counts here"
	case Cores:
		return "more streams work at the same time than the server has cores"
	}
	return ""
}

// Remedy says what to do about a cause; "" for an unknown one.
func (c Cause) Remedy() string {
	switch c {
	case Trainer:
		return "make the training loop faster; the server needs nothing"
	case Network:
		return "run a server or a receiver nearer to the client, read fewer columns, or read indexed"
	case Slot:
		return "raise max_streams, or add servers"
	case Memory:
		return "raise memory, or read with fewer lanes or columns"
	case InFlight:
		return "use smaller batches, or end the clients that do not read"
	case Stream:
		return "find the limit of the other stream, and act on that"
	case Deletes:
		return "compact the table"
	case StorageErrors:
		return "read with fewer streams, use the cache, or ask for more capacity of the store"
	case StorageLatency:
		return "raise read_ahead, use the cache, or run the server in the region of the store"
	case StorageBandwidth:
		return "read fewer columns, use the cache, or use more servers"
	case SmallReads:
		return "compact the table, or write larger files; a larger read_gap also makes fewer requests"
	case Plan:
		return "check how long the catalog takes to answer; expire old snapshots and rewrite manifests"
	case Spill:
		return "raise memory, read fewer staging columns, or write the staging table with more buckets"
	case Decode:
		return "give the server more cores, read fewer columns, or use the cache"
	case Build:
		return "give the server more cores, read fewer staging columns, or raise memory so that build sides are kept"
	case Compute:
		return "make the expressions cheaper, or promote their results to columns"
	case Join:
		return "give the server more cores, or read with more shards"
	case Send:
		return "give the server more cores, read fewer columns, or use a server on the client's host"
	case Cores:
		return "give the server more cores, or add servers"
	}
	return ""
}
