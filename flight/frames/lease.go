package frames

import (
	"bytes"
	"sync/atomic"

	"github.com/apache/arrow-go/v18/arrow"
	"google.golang.org/grpc/mem"

	"github.com/penstock/penstock/internal/batch"
)

// Payload is memory that a lease keeps until gRPC has written it.
type Payload interface {
	// Release frees the memory.
	Release()
	// MarkInFlight notes that the network has the memory.
	MarkInFlight()
	// MarkStalled notes that its client does not take it.
	MarkStalled()
}

// Lease keeps a payload, such as a batch, until gRPC has written its last part and the sender has dropped the lease, or until
// gRPC no longer uses the connection. It implements the pool to which gRPC returns buffers.
type Lease struct {
	payload  Payload
	inflight *StreamInflight  // of the stream; nil: the payload is not counted
	encoding *batchEncoding   // of a batch
	bytes    int64            // of memory that the payload keeps alive
	reserved []batch.Reserved // of bytes; payloads may share it
	parts    atomic.Int64     // that gRPC has, plus one for the sender
	over     atomic.Bool
}

// NewLease returns a lease on a payload, which keeps reserved memory alive.
func NewLease(p Payload, reserved []batch.Reserved, of *StreamInflight) *Lease {
	l := &Lease{payload: p, inflight: of, reserved: reserved}
	for _, one := range reserved {
		l.bytes += one.Bytes
	}
	l.parts.Store(1)
	return l
}

// charged is a batch that knows how much memory it keeps alive. It is marked when the network
// has it, and when the network makes no progress.
type charged interface {
	Reserved() []batch.Reserved
	MarkInFlight()
	MarkStalled()
}

// NewBatchLease returns a lease on a batch, which it retains. Nil encodings share nothing.
func NewBatchLease(b arrow.RecordBatch, of *StreamInflight, e *Encodings) *Lease {
	b.Retain()
	var reserved []batch.Reserved
	if c, ok := b.(charged); ok {
		reserved = c.Reserved()
	}
	l := NewLease(leasedBatch{b, e}, reserved, of)
	l.encoding = e.enter(b)
	return l
}

// leasedBatch is a batch as a payload.
type leasedBatch struct {
	batch     arrow.RecordBatch
	encodings *Encodings // has the batch until the lease ends; nil: its messages are not shared
}

// Release implements Payload.
func (b leasedBatch) Release() {
	b.encodings.leave(b.batch)
	b.batch.Release()
}

// MarkInFlight implements Payload.
func (b leasedBatch) MarkInFlight() {
	if c, ok := b.batch.(charged); ok {
		c.MarkInFlight()
	}
}

// MarkStalled implements Payload.
func (b leasedBatch) MarkStalled() {
	if c, ok := b.batch.(charged); ok {
		c.MarkStalled()
	}
}

// encoded returns the messages of the batch. l may be nil: then nothing is shared.
func (l *Lease) encoded() *batchEncoding {
	if l == nil {
		return &batchEncoding{}
	}
	return l.encoding
}

// maxPart bounds a part of a payload, in bytes. A stream is seen to move when gRPC has written
// a part.
const maxPart = 1 << 20

// Lend appends p, memory of the payload, in parts. Short parts are copied: gRPC does not count
// references to them.
func (l *Lease) Lend(to mem.BufferSlice, p []byte) mem.BufferSlice {
	for len(p) > 0 {
		part := p[:min(len(p), maxPart)]
		p = p[len(part):]
		if mem.IsBelowBufferPoolingThreshold(len(part)) {
			to = append(to, mem.SliceBuffer(bytes.Clone(part)))
			continue
		}
		l.parts.Add(1)
		to = append(to, mem.NewBuffer(&part, l))
	}
	return to
}

// LendShort returns a copy of a short text that is a part, which gRPC counts references to by its capacity.
func (l *Lease) LendShort(text []byte) mem.BufferSlice {
	capacity := len(text)
	for mem.IsBelowBufferPoolingThreshold(capacity) {
		capacity = 2*capacity + 1
	}
	part := append(make([]byte, 0, capacity), text...)
	l.parts.Add(1)
	return mem.BufferSlice{mem.NewBuffer(&part, l)}
}

// Release drops one of the references that parts counts.
func (l *Lease) Release() {
	if l.inflight != nil {
		l.inflight.Move()
	}
	if l.parts.Add(-1) == 0 {
		l.end()
	}
}

// end releases the payload. It may be called more than once.
func (l *Lease) end() {
	if l.over.CompareAndSwap(false, true) {
		l.payload.Release()
		if l.inflight != nil {
			l.inflight.remove(l)
		}
	}
}

// Put implements mem.BufferPool.
func (l *Lease) Put(*[]byte) { l.Release() }

// Get implements mem.BufferPool. gRPC never calls it on a lease.
func (l *Lease) Get(n int) *[]byte {
	b := make([]byte, n)
	return &b
}
