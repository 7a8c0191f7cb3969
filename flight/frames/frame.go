package frames

import (
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
)

// Field numbers of FlightData. Flight.proto puts the body last, so that it can be written
// without a copy.
const (
	fieldHeader   = 2
	fieldMetadata = 3
	fieldBody     = 1000
)

// Frame is a FlightData message whose body is not copied: gRPC references the memory until it
// is written.
type Frame struct {
	header   []byte // an Arrow message
	metadata []byte // app_metadata
	body     mem.BufferSlice
	size     int    // bytes of body
	handed   bool   // passed to gRPC, which frees the body
	lease    *Lease // on the batch that owns the memory of body; may be nil
}

// NewFrame returns a frame that has only metadata.
func NewFrame(metadata []byte) *Frame { return &Frame{metadata: metadata} }

// Release frees the body, unless gRPC does. It may be called more than once.
func (f *Frame) Release() {
	if !f.handed {
		f.handed = true
		f.body.Free()
	}
}

// Hand notes that the frame is passed to gRPC, which then frees the body.
func (f *Frame) Hand() { f.handed = true }

// HasBatch reports whether the frame is of a batch with a lease. Other frames are schemas and metadata.
func (f *Frame) HasBatch() bool { return f.lease != nil }

// Len returns the size of the message on the wire, in bytes.
func (f *Frame) Len() int {
	n := 0
	for _, x := range []struct{ field, size int }{{fieldHeader, len(f.header)}, {fieldMetadata, len(f.metadata)}, {fieldBody, f.size}} {
		if x.size > 0 {
			n += protowire.SizeTag(protowire.Number(x.field)) + protowire.SizeBytes(x.size)
		}
	}
	return n
}

// Marshal returns the message as protobuf encodes it: fields in the order of their numbers,
// without empty ones.
func (f *Frame) Marshal() mem.BufferSlice {
	head := make([]byte, 0, f.Len()-f.size)
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
func (f *Frame) add(p []byte) {
	if f.lease != nil {
		f.body = f.lease.Lend(f.body, p)
	} else {
		f.body = append(f.body, mem.SliceBuffer(p))
	}
	f.size += len(p)
}
