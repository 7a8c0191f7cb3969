package frames

import (
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	protobuf "google.golang.org/protobuf/proto"
)

// Marshaler is a message that encodes itself, without a copy.
type Marshaler interface {
	Marshal() mem.BufferSlice
}

// unmarshaler is a message that decodes itself, such as one with rows.
type unmarshaler interface {
	Unmarshal(parts mem.BufferSlice) error
}

// Codec is gRPC's protobuf codec with two differences: it does not copy a Marshaler, and it
// allocates exactly the size of other messages. gRPC's pools have buffers of 32 KiB and of 1 MiB,
// and none in between.
type Codec struct{ encoding.CodecV2 }

// NewCodec returns a codec.
func NewCodec() Codec { return Codec{encoding.GetCodecV2(proto.Name)} }

// Marshal implements encoding.CodecV2.
func (c Codec) Marshal(v any) (mem.BufferSlice, error) {
	switch m := v.(type) {
	case Marshaler:
		return m.Marshal(), nil
	case protobuf.Message:
		text, err := protobuf.Marshal(m)
		return mem.BufferSlice{mem.SliceBuffer(text)}, err
	}
	return c.CodecV2.Marshal(v)
}

// Unmarshal implements encoding.CodecV2.
func (c Codec) Unmarshal(parts mem.BufferSlice, v any) error {
	switch m := v.(type) {
	case unmarshaler:
		return m.Unmarshal(parts)
	case protobuf.Message:
		return protobuf.Unmarshal(parts.Materialize(), m)
	}
	return c.CodecV2.Unmarshal(parts, v)
}
