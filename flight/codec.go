package flight

import (
	"bytes"
	"sync/atomic"

	"github.com/apache/arrow-go/v18/arrow"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	protobuf "google.golang.org/protobuf/proto"

	"github.com/penstock/penstock/internal/batch"
)

// Field numbers of FlightData. Flight.proto puts the body last, so that it can be written
// without a copy.
const (
	fieldHeader   = 2
	fieldMetadata = 3
	fieldBody     = 1000
)

// frame is a FlightData message whose body is not copied: gRPC references the memory until it
// is written.
type frame struct {
	header   []byte // an Arrow message
	metadata []byte // app_metadata
	body     mem.BufferSlice
	size     int         // bytes of body
	handed   bool        // to gRPC, which frees the body
	lease    *batchLease // on the batch that owns the memory of body; may be nil
}

// batchLease retains a batch until gRPC has written its last part and the sender has dropped
// the lease, or until gRPC no longer uses the connection. It implements the pool to which
// gRPC returns buffers.
type batchLease struct {
	batch     arrow.RecordBatch // nil: the lease is on an answer
	answer    *encodedAnswer
	inflight  *streamInflight // of the stream; nil: the batch is not counted
	encodings *batchEncodings // has the batch until the lease ends; nil: its messages are not shared
	encoding  *batchEncoding
	bytes     int64            // of memory that the batch keeps alive
	reserved  []batch.Reserved // of bytes; batches may share it
	parts     atomic.Int64     // that gRPC has, plus one for the sender
	over      atomic.Bool
}

// charged is a batch that knows how much memory it keeps alive. It is marked when the network
// has it, and when the network makes no progress.
type charged interface {
	Reserved() []batch.Reserved
	MarkInFlight()
	MarkStalled()
}

func newBatchLease(b arrow.RecordBatch, p *streamInflight, e *batchEncodings) *batchLease {
	b.Retain()
	l := &batchLease{batch: b, inflight: p, encodings: e, encoding: e.enter(b)}
	if c, ok := b.(charged); ok {
		l.reserved = c.Reserved()
		for _, one := range l.reserved {
			l.bytes += one.Bytes
		}
	}
	l.parts.Store(1)
	return l
}

// encoded returns the messages of the batch. l may be nil: then nothing is shared.
func (l *batchLease) encoded() *batchEncoding {
	if l == nil {
		return &batchEncoding{}
	}
	return l.encoding
}

// maxPart bounds a part of a batch, in bytes. A stream is seen to move when gRPC has written
// a part.
const maxPart = 1 << 20

// lend appends p, memory of the batch, in parts. Short parts are copied: gRPC does not count
// references to them.
func (l *batchLease) lend(to mem.BufferSlice, p []byte) mem.BufferSlice {
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

// Release drops one of the references that parts counts.
func (l *batchLease) Release() {
	if l.inflight != nil {
		l.inflight.move()
	}
	if l.parts.Add(-1) == 0 {
		l.end()
	}
}

// end releases the batch. It may be called more than once.
func (l *batchLease) end() {
	if l.over.CompareAndSwap(false, true) {
		if l.batch != nil {
			l.encodings.leave(l.batch)
			l.batch.Release()
		}
		l.answer.Release()
		if l.inflight != nil {
			l.inflight.remove(l)
		}
	}
}

// Put implements mem.BufferPool.
func (l *batchLease) Put(*[]byte) { l.Release() }

// Get implements mem.BufferPool. gRPC never calls it on a lease.
func (l *batchLease) Get(n int) *[]byte {
	b := make([]byte, n)
	return &b
}

// markInFlight marks the batch: the network has it.
func (l *batchLease) markInFlight() {
	if c, ok := l.batch.(charged); ok {
		c.MarkInFlight()
	}
	l.answer.markInFlight()
}

// markStalled marks the batch: its client does not take it.
func (l *batchLease) markStalled() {
	if c, ok := l.batch.(charged); ok {
		c.MarkStalled()
	}
	l.answer.markStalled()
}

// Release frees the body, unless gRPC does. It may be called more than once.
func (f *frame) Release() {
	if !f.handed {
		f.handed = true
		f.body.Free()
	}
}

// len returns the size of the message on the wire, in bytes.
func (f *frame) len() int {
	n := 0
	for _, x := range []struct{ field, size int }{{fieldHeader, len(f.header)}, {fieldMetadata, len(f.metadata)}, {fieldBody, f.size}} {
		if x.size > 0 {
			n += protowire.SizeTag(protowire.Number(x.field)) + protowire.SizeBytes(x.size)
		}
	}
	return n
}

// marshal returns the message as protobuf encodes it: fields in the order of their numbers,
// without empty ones.
func (f *frame) marshal() mem.BufferSlice {
	head := make([]byte, 0, f.len()-f.size)
	if len(f.header) > 0 {
		head = protowire.AppendTag(head, fieldHeader, protowire.BytesType)
		head = protowire.AppendBytes(head, f.header)
	}
	if len(f.metadata) > 0 {
		head = protowire.AppendTag(head, fieldMetadata, protowire.BytesType)
		head = protowire.AppendBytes(head, f.metadata)
	}
	if f.size == 0 {
		return mem.BufferSlice{mem.SliceBuffer(head)}
	}
	head = protowire.AppendTag(head, fieldBody, protowire.BytesType)
	head = protowire.AppendVarint(head, uint64(f.size))
	return append(mem.BufferSlice{mem.SliceBuffer(head)}, f.body...)
}

// add appends to the body without a copy. Callers must not change p afterwards.
func (f *frame) add(p []byte) {
	if f.lease != nil {
		f.body = f.lease.lend(f.body, p)
	} else {
		f.body = append(f.body, mem.SliceBuffer(p))
	}
	f.size += len(p)
}

// limitedMessage is a message that is not read if it has more than maxReceived bytes.
type limitedMessage struct {
	message any
	size    int // bytes
}

// unmarshaler is a message that reads itself: one with rows.
type unmarshaler interface {
	Unmarshal(parts mem.BufferSlice) error
}

// codec is gRPC's protobuf codec, except that frames and answers are not copied, and that other messages take the memory that they
// need: gRPC's pools have buffers of 32 KiB and of a MiB, and none in between.
type codec struct{ encoding.CodecV2 }

func newCodec() codec { return codec{encoding.GetCodecV2(proto.Name)} }

// Marshal implements encoding.CodecV2.
func (c codec) Marshal(v any) (mem.BufferSlice, error) {
	switch m := v.(type) {
	case *frame:
		return m.marshal(), nil
	case *encodedAnswer:
		return m.parts, nil
	case protobuf.Message:
		text, err := protobuf.Marshal(m)
		return mem.BufferSlice{mem.SliceBuffer(text)}, err
	}
	return c.CodecV2.Marshal(v)
}

// Unmarshal implements encoding.CodecV2.
func (c codec) Unmarshal(parts mem.BufferSlice, v any) error {
	switch m := v.(type) {
	case unmarshaler:
		return m.Unmarshal(parts)
	case *limitedMessage:
		if m.size = parts.Len(); m.size > maxReceived {
			return nil
		}
		return c.Unmarshal(parts, m.message)
	case protobuf.Message:
		return protobuf.Unmarshal(parts.Materialize(), m)
	}
	return c.CodecV2.Unmarshal(parts, v)
}
