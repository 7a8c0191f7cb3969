package flight

import (
	"time"

	"github.com/penstock/penstock/loader/stream"
)

// Observer holds functions that the server calls on events. Any may be nil. They are called from
// many goroutines and must return quickly.
type Observer struct {
	// CallEnded is called after every call, including streams, except watches of the server's
	// health. method is a name such as "DoGet"; end is "ok", "cancelled", "deadline" or the
	// name of a fault kind.
	CallEnded func(method, end string, took time.Duration)
	// StreamBegan is called when a stream of batches begins.
	// Its job is "" if the query has none.
	StreamBegan func(dataset, job string)
	// BatchSent is called after each batch was handed to the network or delivered in mapped memory, with
	// its rows, its bytes on the wire, and its bytes in mapped memory.
	BatchSent func(dataset, job string, rows, bytes, mapped int64)
	// StreamSetBack is called when a stream repeats a step, because other streams need the memory.
	StreamSetBack func(dataset string)
	// StreamEnded is called when a stream that began has ended.
	StreamEnded func(StreamEnd)
	// Stalled is called with each report of a trainer.
	Stalled func(Stall)
}

// StreamEnd summarizes a stream.
type StreamEnd struct {
	Dataset string // "" if the query carried it
	Job     string // "" if the query has none
	End     string // as in CallEnded
	Rows    int64
	Batches int64
	Bytes   int64 // on the wire, including cursors
	// MappedBytes is the size of the batches that were delivered in mapped memory.
	MappedBytes int64
	Took        time.Duration
	// Staging has the counts of each staging table that was read, by the name of its entry. It is
	// set even if the stream ended before its report.
	Staging map[string]stream.StagingReport
}

// withDefaults replaces nil functions by ones that do nothing.
func (o Observer) withDefaults() Observer {
	if o.CallEnded == nil {
		o.CallEnded = func(string, string, time.Duration) {}
	}
	if o.StreamBegan == nil {
		o.StreamBegan = func(string, string) {}
	}
	if o.BatchSent == nil {
		o.BatchSent = func(string, string, int64, int64, int64) {}
	}
	if o.StreamSetBack == nil {
		o.StreamSetBack = func(string) {}
	}
	if o.StreamEnded == nil {
		o.StreamEnded = func(StreamEnd) {}
	}
	if o.Stalled == nil {
		o.Stalled = func(Stall) {}
	}
	return o
}
