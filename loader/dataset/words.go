package dataset

import "github.com/penstock/penstock/internal/fault"

// Tail says what happens to rows that do not fill a last step.
type Tail string

// The tails.
const (
	TailKeep Tail = "keep" // every row exactly once
	TailDrop Tail = "drop" // all shards end at the same step
)

// Drops says whether they are left out.
func (t Tail) Drops() bool {
	switch t {
	case TailDrop:
		return true
	case TailKeep:
		return false
	}
	return false
}

// Count says whether a plan's rows are counted where they are not known.
type Count string

// The counts.
const (
	CountEstimate Count = "estimate"
	CountExact    Count = "exact"
)

// IsExact says whether they are.
func (c Count) IsExact() bool {
	switch c {
	case CountExact:
		return true
	case CountEstimate:
		return false
	}
	return false
}

// Wire is the form of the batches (docs/spec/wire.md).
type Wire string

// The forms.
const (
	WirePlain   Wire = "plain"   // every column beside the others
	WireIndexed Wire = "indexed" // of each staging table, and of requests, a dictionary of the distinct rows
	WireAuto    Wire = "auto"    // of each the one of the two that takes fewer bytes
	WireGrouped Wire = "grouped" // a row for each request, with lists of what its rows have
)

// Indexed says whether staging tables and requests come as dictionaries, or may.
// Another form than those above is Internal.
func (w Wire) Indexed() (bool, error) {
	switch w {
	case WireIndexed, WireAuto:
		return true, nil
	case WirePlain, WireGrouped:
		return false, nil
	}
	return false, fault.New(fault.Internal, "batches are asked for in a form %q, which does not exist", string(w))
}

// Auto says whether each stream decides what is indexed.
func (w Wire) Auto() bool {
	switch w {
	case WireAuto:
		return true
	case WirePlain, WireIndexed, WireGrouped:
		return false
	}
	return false
}

// Grouped says whether a batch has a row for each request.
func (w Wire) Grouped() bool {
	switch w {
	case WireGrouped:
		return true
	case WirePlain, WireIndexed, WireAuto:
		return false
	}
	return false
}

// Endpoints says what FlightInfo lists an endpoint for.
type Endpoints string

// The endpoints.
const (
	EndpointsShards Endpoints = "shards" // one for each shard
	EndpointsSplits Endpoints = "splits" // one for each split, or for some consecutive ones
)

// BySplits says whether each is of splits.
func (e Endpoints) BySplits() bool {
	switch e {
	case EndpointsSplits:
		return true
	case EndpointsShards:
		return false
	}
	return false
}
