package dataset

import "github.com/penstock/penstock/internal/fault"

// Tail defines how rows that do not fill a last step are handled.
type Tail string

// The values of Tail.
const (
	TailKeep Tail = "keep" // every row is returned exactly once
	TailDrop Tail = "drop" // all shards end at the same step
)

// Drops reports whether rows that do not fill a last step are dropped.
func (t Tail) Drops() bool {
	switch t {
	case TailDrop:
		return true
	case TailKeep:
		return false
	}
	return false
}

// Count defines whether rows are counted when a plan's row count is not known in advance.
type Count string

// The values of Count.
const (
	CountEstimate Count = "estimate"
	CountExact    Count = "exact"
)

// IsExact reports whether rows are counted.
func (c Count) IsExact() bool {
	switch c {
	case CountExact:
		return true
	case CountEstimate:
		return false
	}
	return false
}

// CacheUse determines how a reading uses the data that the server keeps from earlier readings. It
// never changes the rows.
type CacheUse string

// The values of CacheUse.
const (
	CacheRead CacheUse = "read" // uses kept data, and keeps what is read for the second time
	CacheFill CacheUse = "fill" // uses kept data, and keeps all that it reads, since it will be read again
	CacheOff  CacheUse = "off"  // neither uses nor keeps anything
)

// Off reports whether nothing is used or kept.
func (c CacheUse) Off() bool { return c == CacheOff }

// FillsAtOnce reports whether what is read for the first time is kept.
func (c CacheUse) FillsAtOnce() bool { return c == CacheFill }

// Wire is the form of batches on the wire (docs/spec/wire.md).
type Wire string

// The values of Wire.
const (
	WirePlain   Wire = "plain"   // every column as it is
	WireIndexed Wire = "indexed" // each staging table, and the columns of requests, as a dictionary of distinct rows
	WireAuto    Wire = "auto"    // for each of these, plain or indexed, whichever takes fewer bytes
	WireGrouped Wire = "grouped" // one row per request, with lists of the values of its rows
)

// Indexed reports whether staging tables and requests are, or may be, sent as
// dictionaries. It returns an Internal error for an unknown form.
func (w Wire) Indexed() (bool, error) {
	switch w {
	case WireIndexed, WireAuto:
		return true, nil
	case WirePlain, WireGrouped:
		return false, nil
	}
	return false, fault.New(fault.Internal, "unknown wire form %q", string(w))
}

// Auto reports whether each stream chooses the columns to index.
func (w Wire) Auto() bool {
	switch w {
	case WireAuto:
		return true
	case WirePlain, WireIndexed, WireGrouped:
		return false
	}
	return false
}

// Grouped reports whether a batch has one row per request.
func (w Wire) Grouped() bool {
	switch w {
	case WireGrouped:
		return true
	case WirePlain, WireIndexed, WireAuto:
		return false
	}
	return false
}

// Endpoints defines the endpoints that FlightInfo lists.
type Endpoints string

// The values of Endpoints.
const (
	EndpointsShards Endpoints = "shards" // one per shard
	EndpointsSplits Endpoints = "splits" // one per split, or per group of consecutive splits
)

// BySplits reports whether endpoints are splits.
func (e Endpoints) BySplits() bool {
	switch e {
	case EndpointsSplits:
		return true
	case EndpointsShards:
		return false
	}
	return false
}
