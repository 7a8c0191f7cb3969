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
	lease    *lease // on the batch whose memory body is; nil if there is none
}

// lease keeps a batch until gRPC has written the last part of it, and whoever
// made the lease has dropped it. After a cancelled stream gRPC may never say
// so: then the batch is the collector's, as all its memory is. It stands in
// for the pool that gRPC gives buffers back to.
type lease struct {
	batch arrow.RecordBatch
	parts atomic.Int64
}

func newLease(b arrow.RecordBatch) *lease {
	b.Retain()
	l := &lease{batch: b}
	l.parts.Store(1)
	return l
}

// part lends p, a part of the batch's memory. gRPC counts no references of
// short parts: those are copied.
func (l *lease) part(p []byte) mem.Buffer {
	if mem.IsBelowBufferPoolingThreshold(len(p)) {
		return mem.SliceBuffer(bytes.Clone(p))
	}
	l.parts.Add(1)
	return mem.NewBuffer(&p, l)
}

func (l *lease) drop() {
	if l.parts.Add(-1) == 0 {
		l.batch.Release()
	}
}

// Put implements mem.BufferPool.
func (l *lease) Put(*[]byte) { l.drop() }

// Get implements mem.BufferPool. Nothing asks a lease for memory.
func (l *lease) Get(n int) *[]byte {
	b := make([]byte, n)
	return &b
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
	part := mem.Buffer(mem.SliceBuffer(p))
	if f.lease != nil {
		part = f.lease.part(p)
	}
	f.body = append(f.body, part)
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
