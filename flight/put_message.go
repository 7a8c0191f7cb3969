package flight

import (
	"encoding/binary"
	"io"

	"github.com/apache/arrow-go/v18/arrow"
	arrowflight "github.com/apache/arrow-go/v18/arrow/flight"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	protobuf "google.golang.org/protobuf/proto"

	"github.com/penstock/penstock/internal/fault"
)

// fieldDescriptor is the field number of FlightData's descriptor.
const fieldDescriptor = 1

// putMessage is a FlightData message of a client. Its body is copied once, to memory of its own, so that buffers in it are
// aligned.
type putMessage struct {
	descriptor *arrowflight.FlightDescriptor
	header     []byte // an Arrow message
	metadata   []byte // app_metadata
	body       []byte
}

// size returns the bytes that the message holds.
func (m *putMessage) size() int64 {
	return int64(len(m.header) + len(m.metadata) + len(m.body) + len(m.descriptor.GetCmd()))
}

// unmarshal reads the message as protobuf encodes it.
func (m *putMessage) unmarshal(parts mem.BufferSlice) error {
	*m = putMessage{}
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
		value, err := lengthPrefixed(in)
		if err != nil {
			return err
		}
		switch number {
		case fieldDescriptor:
			m.descriptor = &arrowflight.FlightDescriptor{}
			if err := protobuf.Unmarshal(value, m.descriptor); err != nil {
				return err
			}
		case fieldHeader:
			m.header = value
		case fieldMetadata:
			m.metadata = value
		case fieldBody:
			m.body = value
		}
	}
	return nil
}

// lengthPrefixed reads a field of bytes.
func lengthPrefixed(in *mem.Reader) ([]byte, error) {
	n, err := binary.ReadUvarint(in)
	if err != nil {
		return nil, err
	}
	if n > uint64(in.Remaining()) {
		return nil, io.ErrUnexpectedEOF
	}
	value := make([]byte, n)
	_, err = io.ReadFull(in, value)
	return value, err
}

// flatTable is a table of a flatbuffer, such as the header of an Arrow message, whose bytes a client chose.
type flatTable struct {
	bytes []byte
	at    int
}

// Slots of the tables' fields that are read here, as the schemas of Arrow messages have them.
const (
	slotHeaderType, slotHeader         = 1, 2    // of Message
	slotRows, slotNodes, slotBuffers   = 0, 1, 2 // of RecordBatch
	slotCompression, slotVariadic      = 3, 4    // of RecordBatch
	slotDictionaryID, slotDictionary   = 0, 1    // of DictionaryBatch
	slotIsDelta                        = 2       // of DictionaryBatch
	headerDictionaryBatch, headerBatch = 2, 3    // of the union MessageHeader
	bufferBytes                        = 16      // an offset and a length
	notCompressed                      = -1      // of a buffer in a compressed body
	maxBatchRows                       = 1 << 24 // columns without buffers could have any number
)

// uint32At reads a number; 0 beyond the end.
func (t flatTable) uint32At(at int) int {
	if at < 0 || at > len(t.bytes)-4 {
		return 0
	}
	return int(binary.LittleEndian.Uint32(t.bytes[at:]))
}

// int64At reads a number; 0 beyond the end.
func int64At(p []byte, at int64) int64 {
	if at < 0 || at > int64(len(p))-8 {
		return 0
	}
	return int64(binary.LittleEndian.Uint64(p[at:])) //nolint:gosec // two's complement
}

// field returns the place of a field; 0: the table does not have it.
func (t flatTable) field(slot int) int {
	names := t.at - int(int32(t.uint32At(t.at))) //nolint:gosec // two's complement
	entry := 4 + 2*slot
	if names < 0 || names > len(t.bytes)-2 || entry+2 > int(binary.LittleEndian.Uint16(t.bytes[names:])) || names+entry > len(t.bytes)-2 {
		return 0
	}
	if offset := int(binary.LittleEndian.Uint16(t.bytes[names+entry:])); offset > 0 {
		return t.at + offset
	}
	return 0
}

// table returns a table in a field; false if there is none.
func (t flatTable) table(slot int) (flatTable, bool) {
	at := t.field(slot)
	if at == 0 {
		return flatTable{}, false
	}
	return flatTable{t.bytes, at + t.uint32At(at)}, true
}

// vector returns the places of the entries of a list of structs or numbers, as far as they are within the bytes.
func (t flatTable) vector(slot, size int) []int64 {
	at := t.field(slot)
	if at == 0 {
		return nil
	}
	at += t.uint32At(at)
	n := min(t.uint32At(at), max(0, (len(t.bytes)-at-4)/size))
	out := make([]int64, n)
	for i := range out {
		out[i] = int64(at + 4 + i*size)
	}
	return out
}

// byteOf returns a field of one byte; 0 if there is none.
func (t flatTable) byteOf(slot int) byte {
	if at := t.field(slot); at > 0 && at < len(t.bytes) {
		return t.bytes[at]
	}
	return 0
}

// putHeader is what is known of an Arrow message before it is decoded.
type putHeader struct {
	isDictionary bool
	isDelta      bool
	dictionary   int64 // its id
	rows         int64
	nodes        int   // arrays, nested ones included
	views        int   // of these, arrays of views, whose numbers of buffers it has
	decompressed int64 // bytes that decoding takes beside the body
}

// inspect reads the header of a message with a batch or a dictionary. Of other messages it returns zero.
func (m *putMessage) inspect() (putHeader, error) {
	var out putHeader
	root := flatTable{m.header, flatTable{bytes: m.header}.uint32At(0)}
	of, ok := root.table(slotHeader)
	switch {
	case !ok:
		return out, nil
	case root.byteOf(slotHeaderType) == headerDictionaryBatch:
		out.isDictionary, out.isDelta = true, of.byteOf(slotIsDelta) != 0
		if at := of.field(slotDictionaryID); at > 0 {
			out.dictionary = int64At(m.header, int64(at))
		}
		if of, ok = of.table(slotDictionary); !ok {
			return out, nil
		}
	case root.byteOf(slotHeaderType) != headerBatch:
		return out, nil
	}
	if at := of.field(slotRows); at > 0 {
		out.rows = int64At(m.header, int64(at))
	}
	if at := of.field(slotNodes); at > 0 {
		out.nodes = of.uint32At(at + of.uint32At(at))
	}
	buffers := of.vector(slotBuffers, bufferBytes)
	counts := of.vector(slotVariadic, 8)
	out.views = len(counts)
	for _, at := range counts {
		if n := int64At(m.header, at); n < 0 || n > int64(len(buffers)) {
			return out, fault.New(fault.Invalid, "a column has %d buffers, and the batch %d", n, len(buffers)).WithRemedy("write the rows with a library of Arrow")
		}
	}
	if _, compressed := of.table(slotCompression); !compressed {
		return out, nil
	}
	for _, at := range buffers {
		if int64At(m.header, at+8) == 0 {
			continue
		}
		switch bytes := int64At(m.body, int64At(m.header, at)); {
		case bytes == notCompressed:
		case bytes < 0, bytes > maxPutMessage:
			return out, tooLargeBatch(maxPutMessage)
		default:
			out.decompressed += bytes
		}
	}
	return out, nil
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
