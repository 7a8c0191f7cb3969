package flight

import (
	"bytes"
	"sync/atomic"

	"github.com/apache/arrow-go/v18/arrow"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
)

// Field numbers of FlightData. Flight.proto puts the body last, so that it can
// be written without copying it.
const (
	fieldHeader   = 2
	fieldMetadata = 3
	fieldBody     = 1000
)

// frame is a FlightData message whose body is not copied: gRPC keeps the memory
// until it was written.
type frame struct {
	header   []byte // an Arrow message
	metadata []byte // app_metadata
	body     mem.BufferSlice
	size     int    // bytes of body
	handed   bool   // to gRPC, which frees the body
	lease    *lease // on the batch whose memory body is; nil if there is none
}

// lease keeps a batch until gRPC has written the last part of it, and whoever
// made the lease has dropped it; or until gRPC is done with the connection. It
// stands in for the pool that gRPC gives buffers back to.
type lease struct {
	batch   arrow.RecordBatch
	passage *passage // of the stream; nil: nobody counts
	bytes   int64    // of memory that the batch keeps
	parts   atomic.Int64
	over    atomic.Bool
}

// charged is a batch that knows what it keeps of memory, and can be told that the
// network has it, and that it does not go on with it.
type charged interface {
	Bytes() int64
	Lend()
	Stuck()
}

func newLease(b arrow.RecordBatch, p *passage) *lease {
	b.Retain()
	l := &lease{batch: b, passage: p}
	if c, ok := b.(charged); ok {
		l.bytes = c.Bytes()
	}
	l.parts.Store(1)
	return l
}

// mostPart bounds a part of a batch, in bytes: the end of a part is what a stream
// is seen to move by.
const mostPart = 1 << 20

// lend appends p, a part of the batch's memory. gRPC counts no references of
// short parts: those are copied.
func (l *lease) lend(to mem.BufferSlice, p []byte) mem.BufferSlice {
	for len(p) > 0 {
		part := p[:min(len(p), mostPart)]
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

func (l *lease) drop() {
	if l.passage != nil {
		l.passage.move()
	}
	if l.parts.Add(-1) == 0 {
		l.end()
	}
}

// end releases the batch. It may be called more than once.
func (l *lease) end() {
	if l.over.CompareAndSwap(false, true) {
		l.batch.Release()
		if l.passage != nil {
			l.passage.done(l)
		}
	}
}

// Put implements mem.BufferPool.
func (l *lease) Put(*[]byte) { l.drop() }

// Get implements mem.BufferPool. Nothing asks a lease for memory.
func (l *lease) Get(n int) *[]byte {
	b := make([]byte, n)
	return &b
}

// lent says that the network has the batch.
func (l *lease) lent() {
	if c, ok := l.batch.(charged); ok {
		c.Lend()
	}
}

// stuck says that the client does not take the batch.
func (l *lease) stuck() {
	if c, ok := l.batch.(charged); ok {
		c.Stuck()
	}
}

// drop frees the body, unless gRPC does.
func (f *frame) drop() {
	if !f.handed {
		f.handed = true
		f.body.Free()
	}
}

// len returns how many bytes the message has on the wire.
func (f *frame) len() int {
	n := 0
	for _, x := range []struct{ field, size int }{{fieldHeader, len(f.header)}, {fieldMetadata, len(f.metadata)}, {fieldBody, f.size}} {
		if x.size > 0 {
			n += protowire.SizeTag(protowire.Number(x.field)) + protowire.SizeBytes(x.size)
		}
	}
	return n
}

// marshal returns the message as protobuf writes it: fields in the order of
// their numbers, empty ones left out.
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

// Write takes a part of the body over. Callers must not change p afterwards.
func (f *frame) Write(p []byte) (int, error) {
	if f.lease != nil {
		f.body = f.lease.lend(f.body, p)
	} else {
		f.body = append(f.body, mem.SliceBuffer(p))
	}
	f.size += len(p)
	return len(p), nil
}

// codec is gRPC's protobuf codec, save that frames are not copied.
type codec struct{ encoding.CodecV2 }

func newCodec() codec { return codec{encoding.GetCodecV2(proto.Name)} }

// Marshal implements encoding.CodecV2.
func (c codec) Marshal(v any) (mem.BufferSlice, error) {
	if f, ok := v.(*frame); ok {
		return f.marshal(), nil
	}
	return c.CodecV2.Marshal(v)
}
