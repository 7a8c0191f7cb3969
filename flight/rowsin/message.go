package rowsin

import (
	"context"
	"encoding/binary"
	"io"

	"github.com/apache/arrow-go/v18/arrow"
	arrowflight "github.com/apache/arrow-go/v18/arrow/flight"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	protobuf "google.golang.org/protobuf/proto"

	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/fault"
)

// Field numbers of FlightData, as Flight.proto has them.
const (
	fieldDescriptor = 1
	fieldHeader     = 2
	fieldMetadata   = 3
	fieldBody       = 1000
)

// Limits of what clients send.
const (
	// The limit of a message is the memory budget divided by messageShare, but at least minMessage
	// and at most maxMessage bytes. Each call reserves twice the limit.
	maxMessage, minMessage, messageShare = 64 << 20, 2 << 20, 128
	// maxDescriptor is the maximum size of the descriptor of a call, in bytes.
	maxDescriptor = 64 << 10
	// Decompressed bodies may take freeExpanded bytes in a call, and maxExpansion more bytes for
	// each received byte. Values of dictionaries and views count too, once for each row that has
	// the value.
	freeExpanded, maxExpansion = 256 << 20, 1000
)

// Limit returns the maximum bytes of a message with rows, for a memory budget in bytes. A budget of
// zero has no limit.
func Limit(memory int64) int64 {
	if memory <= 0 {
		return maxMessage
	}
	return min(max(memory/messageShare, minMessage), maxMessage)
}

// message is a FlightData message of a client. Its body is copied into memory of its own, so that
// the buffers in it are aligned.
type message struct {
	header   []byte // an Arrow message
	metadata []byte // app_metadata
	body     []byte
	memory   memory.Allocator // allocates the body; nil: the Go heap
}

// size returns the number of bytes that the message holds in memory.
func (m *message) size() int64 {
	return int64(len(m.header) + len(m.metadata) + len(m.body))
}

// Unmarshal reads the message as protobuf encodes it.
func (m *message) Unmarshal(parts mem.BufferSlice) error {
	*m = message{memory: m.memory}
	return eachField(parts, func(number protowire.Number, in *mem.Reader, size int) (err error) {
		switch number {
		case fieldHeader:
			m.header, err = valueOf(in, size)
		case fieldMetadata:
			m.metadata, err = valueOf(in, size)
		case fieldBody:
			m.body = m.allocate(size)
			_, err = io.ReadFull(in, m.body)
		default:
			_, err = in.Discard(size)
		}
		return err
	})
}

// allocate returns memory for a body.
func (m *message) allocate(size int) []byte {
	if m.memory == nil {
		return make([]byte, size)
	}
	return m.memory.Allocate(size)
}

// First is the first message of a call. Until the call is authorized, only the message's descriptor
// is decoded.
type First struct {
	Descriptor *arrowflight.FlightDescriptor

	parts mem.BufferSlice     // the whole encoded message, until open or Close
	held  *budget.Reservation // for the bytes of the message; nil before Charge
}

// Unmarshal decodes the descriptor, and keeps the encoded message.
func (f *First) Unmarshal(parts mem.BufferSlice) error {
	*f = First{}
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
		f.Descriptor = &arrowflight.FlightDescriptor{}
		return protobuf.Unmarshal(value, f.Descriptor)
	})
	if err != nil {
		return err
	}
	parts.Ref()
	f.parts = parts
	return nil
}

// Size returns the bytes of the message.
func (f *First) Size() int64 { return int64(f.parts.Len()) }

// Charge reserves memory for the bytes of the message, until Close. It is called once.
func (f *First) Charge(memory *budget.Budget) (err error) {
	f.held, err = memory.Reserve("rows that a client sends", f.Size())
	return err
}

// open decodes the whole message. Charge must have been called. While the message is copied, open
// also reserves memory for the copy.
func (f *First) open(ctx context.Context) (*message, error) {
	size := f.Size()
	if err := f.held.GrowWait(ctx, size); err != nil {
		return nil, err
	}
	defer f.held.Shrink(size)
	m := &message{}
	err := m.Unmarshal(f.parts)
	f.free()
	return m, err
}

func (f *First) free() {
	f.parts.Free()
	f.parts = nil
}

// Close frees the message and its reservation. The caller closes the Rows of the message first.
func (f *First) Close() {
	f.free()
	if f.held != nil {
		f.held.Release()
	}
}

// eachField calls do for each field of a FlightData. The function do must read or discard the
// field's bytes.
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
		if size > uint64(in.Remaining()) { //nolint:gosec // Remaining is not negative
			return io.ErrUnexpectedEOF
		}
		if err := do(number, in, int(size)); err != nil { //nolint:gosec // the message is in memory, so its size fits
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

// arraysOf returns how many arrays a batch with these fields has, including nested arrays, and how
// many of them are arrays of views. It returns an error for a dictionary of views, because the
// header of a batch lists the numbers of buffers of all views, and does not say which of these
// numbers belong to the dictionary.
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
