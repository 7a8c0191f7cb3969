package flight

import (
	"context"
	"encoding/binary"
	"io"

	"github.com/apache/arrow-go/v18/arrow"
	arrowflight "github.com/apache/arrow-go/v18/arrow/flight"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	protobuf "google.golang.org/protobuf/proto"

	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/fault"
)

// fieldDescriptor is the field number of FlightData's descriptor.
const fieldDescriptor = 1

// maxDescriptor is the most bytes of the descriptor of a call that writes rows.
const maxDescriptor = 64 << 10

// putMessage is a FlightData message of a client. Its body is copied once, to memory of its own, so that buffers in it are
// aligned.
type putMessage struct {
	header   []byte // an Arrow message
	metadata []byte // app_metadata
	body     []byte
}

// size returns the bytes that the message holds.
func (m *putMessage) size() int64 {
	return int64(len(m.header) + len(m.metadata) + len(m.body))
}

// unmarshal reads the message as protobuf encodes it.
func (m *putMessage) unmarshal(parts mem.BufferSlice) error {
	*m = putMessage{}
	return eachField(parts, func(number protowire.Number, in *mem.Reader, size int) (err error) {
		switch number {
		case fieldHeader:
			m.header, err = valueOf(in, size)
		case fieldMetadata:
			m.metadata, err = valueOf(in, size)
		case fieldBody:
			m.body, err = valueOf(in, size)
		default:
			_, err = in.Discard(size)
		}
		return err
	})
}

// firstPut is the first message of a call. Only its descriptor is read before the call is allowed.
type firstPut struct {
	descriptor *arrowflight.FlightDescriptor
	parts      mem.BufferSlice // all of the message, until it is opened or closed
}

// unmarshal reads the descriptor, and keeps the message as it is.
func (f *firstPut) unmarshal(parts mem.BufferSlice) error {
	*f = firstPut{}
	err := eachField(parts, func(number protowire.Number, in *mem.Reader, size int) error {
		if number != fieldDescriptor {
			_, err := in.Discard(size)
			return err
		}
		if size > maxDescriptor {
			return fault.InvalidField("descriptor", "it has %d bytes, more than %d", size, maxDescriptor)
		}
		value, err := valueOf(in, size)
		if err != nil {
			return err
		}
		f.descriptor = &arrowflight.FlightDescriptor{}
		return protobuf.Unmarshal(value, f.descriptor)
	})
	if err != nil {
		return err
	}
	parts.Ref()
	f.parts = parts
	return nil
}

// size returns the bytes of the message.
func (f *firstPut) size() int64 { return int64(f.parts.Len()) }

// heldPut is a first message, and the reservation of its bytes.
type heldPut struct {
	*firstPut
	held *budget.Reservation
}

// open reads the rest of the message. While it is copied, the copy is charged as well.
func (h heldPut) open(ctx context.Context) (*putMessage, error) {
	size := h.size()
	if err := h.held.GrowWait(ctx, size); err != nil {
		return nil, err
	}
	defer h.held.Shrink(size)
	return h.firstPut.open()
}

// open reads the rest of the message.
func (f *firstPut) open() (*putMessage, error) {
	m := &putMessage{}
	err := m.unmarshal(f.parts)
	f.close()
	return m, err
}

// close frees the message.
func (f *firstPut) close() {
	f.parts.Free()
	f.parts = nil
}

// eachField calls do for each field of a FlightData, which reads or discards the field's bytes.
func eachField(parts mem.BufferSlice, do func(number protowire.Number, in *mem.Reader, size int) error) error {
	in := parts.Reader()
	defer in.Close() //nolint:errcheck // frees references to the parts
	for in.Remaining() > 0 {
		tag, err := binary.ReadUvarint(in)
		if err != nil {
			return err
		}
		number, kind := protowire.DecodeTag(tag)
		if kind != protowire.BytesType {
			return fault.New(fault.Invalid, "field %d of a message is not a FlightData's", number)
		}
		size, err := binary.ReadUvarint(in)
		if err != nil {
			return err
		}
		if size > uint64(in.Remaining()) { //nolint:gosec // not negative
			return io.ErrUnexpectedEOF
		}
		if err := do(number, in, int(size)); err != nil { //nolint:gosec // of a message in memory
			return err
		}
	}
	return nil
}

// valueOf reads the bytes of a field.
func valueOf(in *mem.Reader, size int) ([]byte, error) {
	value := make([]byte, size)
	_, err := io.ReadFull(in, value)
	return value, err
}

// tooLargeBatch is the error for a message beyond the limit.
func tooLargeBatch(limit int64) error {
	return fault.New(fault.Exhausted, "a message with rows has more than %d bytes, or more without its compression", limit).
		WithRemedy("send smaller batches: the message that begins a call has the limit, max_message")
}

// arraysOf returns the number of arrays of a batch with some fields, nested ones included, and how many of them are views.
// A dictionary of views is refused: which of a message's counts are its own is not known before it is decoded.
func arraysOf(fields []arrow.Field) (all, views int, err error) {
	for _, f := range fields {
		typed := f.Type
		if extension, ok := typed.(arrow.ExtensionType); ok {
			typed = extension.StorageType()
		}
		all++
		switch typed := typed.(type) {
		case *arrow.StringViewType, *arrow.BinaryViewType:
			views++
		case *arrow.DictionaryType:
			_, n, err := arraysOf([]arrow.Field{{Name: f.Name, Type: typed.ValueType}})
			if n > 0 || err != nil {
				return 0, 0, fault.InvalidField("columns", "column %q has a dictionary of views, which this version does not read", f.Name).
					WithRemedy("send its values, or a dictionary of texts")
			}
		case arrow.NestedType:
			a, v, err := arraysOf(typed.Fields())
			if err != nil {
				return 0, 0, err
			}
			all, views = all+a, views+v
		}
	}
	return all, views, nil
}
