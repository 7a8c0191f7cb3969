package flight

import (
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

// frame is a FlightData message whose body is not copied. The memory belongs
// to the Go heap and never changes after the frame was made: gRPC keeps it
// until it was written, and after a cancelled stream for as long as it likes.
type frame struct {
	header   []byte // an Arrow message
	metadata []byte // app_metadata
	body     mem.BufferSlice
	size     int // bytes of body
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
	f.body = append(f.body, mem.SliceBuffer(p))
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
