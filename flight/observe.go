package flight

import (
	"time"

	"github.com/penstock/penstock/loader"
)

// Observer is told what the server does; it knows nothing of gRPC. Any
// function may be nil. They are called from many goroutines and must be quick.
type Observer struct {
	// CallEnded is told of every call, streams included, save watches of the
	// server's health: its method as
	// "DoGet", and how it ended: "ok", "cancelled", "deadline" or a fault
	// kind's name.
	CallEnded func(method, end string, took time.Duration)
	// StreamBegan is told when a stream of batches begins.
	StreamBegan func(dataset string)
	// BatchSent is told of each batch that was handed to the network, with its
	// rows and its bytes on the wire.
	BatchSent func(dataset string, rows, bytes int64)
	// StreamEnded is told when a stream that began has ended.
	StreamEnded func(StreamEnd)
	// Stalled is told what a trainer says of its stream.
	Stalled func(Stall)
}

// StreamEnd is what a stream did.
type StreamEnd struct {
	Dataset string // "" for one given inline
	End     string // as CallEnded's
	Rows    int64
	Batches int64
	Bytes   int64 // on the wire, cursors included
	Took    time.Duration
	// Staging is what the stream counted of each staging table that it read, by the
	// entry's name: also of a stream that did not get to its report.
	Staging map[string]loader.StagingReport
}

// quiet fills the functions that are nil.
func (o Observer) quiet() Observer {
	if o.CallEnded == nil {
		o.CallEnded = func(string, string, time.Duration) {}
	}
	if o.StreamBegan == nil {
		o.StreamBegan = func(string) {}
	}
	if o.BatchSent == nil {
		o.BatchSent = func(string, int64, int64) {}
	}
	if o.StreamEnded == nil {
		o.StreamEnded = func(StreamEnd) {}
	}
	if o.Stalled == nil {
		o.Stalled = func(Stall) {}
	}
	return o
}
