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
	// MarkInFlight notes that gRPC has the memory.
	MarkInFlight()
	// MarkStalled notes that the client does not read.
	MarkStalled()
}

// Lease keeps a payload, such as a batch, until gRPC has written its last part and the sender has dropped the lease, or until
// gRPC no longer uses the connection. It implements the pool to which gRPC returns buffers.
type Lease struct {
	payload  Payload
	inflight *StreamInflight  // counts the payload; nil: it is not counted
	encoding *batchEncoding   // of the batch, if the payload is one
	bytes    int64            // the memory that the payload keeps alive
	reserved []batch.Reserved // the reservations of this memory, which payloads may share
	parts    atomic.Int64     // the number of parts that gRPC has, plus one for the sender
	over     atomic.Bool
}

// NewLease returns a lease on a payload that keeps the reserved memory alive.
func NewLease(p Payload, reserved []batch.Reserved, of *StreamInflight) *Lease {
	l := &Lease{payload: p, inflight: of, reserved: reserved}
	for _, one := range reserved {
		l.bytes += one.Bytes
	}
	l.parts.Store(1)
	return l
}

// charged is a batch with the reservations of the memory that it keeps alive. It is marked when
// gRPC has it, and when the client does not read it.
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
	encodings *Encodings // holds the batch's messages until the lease ends; nil: they are not shared
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

// encoded returns the encoding of the batch. If l is nil, it returns an encoding that is not
// shared.
func (l *Lease) encoded() *batchEncoding {
	if l == nil {
		return &batchEncoding{}
	}
	return l.encoding
}

// maxPart is the maximum size of a part of a payload, in bytes. A stream counts as moving whenever
// gRPC has written a part.
const maxPart = 1 << 20

// Lend appends p, which is memory of the payload, in parts. Short parts are copied, because gRPC
// does not count references to them.
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

// LendShort returns a copy of a short text as one part. The copy has enough capacity for gRPC to
// count references to it.
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
