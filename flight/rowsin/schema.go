package rowsin

import (
	flatbuffers "github.com/google/flatbuffers/go"

	"github.com/penstock/penstock/internal/fault"
)

// Limits of a schema.
const (
	// schemaMemory is the memory of a decoded schema, as a multiple of the bytes of its header.
	schemaMemory = 64
	headerSchema = 1 // of the union MessageHeader
)

// schemaMessage describes messages with a schema, as Arrow's Message.fbs and Schema.fbs do. Fields
// that are not described here are dropped.
var schemaMessage = schemaShape() //nolint:gochecknoglobals // a table

func schemaShape() *flatShape {
	number := func(bytes int) flatField { return flatField{kind: flatNumber, bytes: bytes} }
	shape := func(fields ...flatField) flatShape { return flatShape{fields: fields, known: true} }
	empty, text := shape(), flatField{kind: flatText}
	pair := shape(text, text) // a KeyValue: key and value
	metadata := flatField{kind: flatTables, of: &pair}
	integer := shape(number(4), number(1)) // width, signed
	encoding := shape(number(8), flatField{kind: flatInner, of: &integer}, number(1), number(2))
	types := []flatShape{ // by their number in the union Type; NONE and unions are refused
		1:  empty,                                  // Null
		2:  integer,                                // Int
		3:  shape(number(2)),                       // FloatingPoint
		4:  empty,                                  // Binary
		5:  empty,                                  // Utf8
		6:  empty,                                  // Bool
		7:  shape(number(4), number(4), number(4)), // Decimal
		8:  shape(number(2)),                       // Date
		9:  shape(number(2), number(4)),            // Time
		10: shape(number(2), text),                 // Timestamp
		11: shape(number(2)),                       // Interval
		12: empty,                                  // List
		13: empty,                                  // Struct
		15: shape(number(4)),                       // FixedSizeBinary
		16: shape(number(4)),                       // FixedSizeList
		17: shape(number(1)),                       // Map
		18: shape(number(2)),                       // Duration
		19: empty,                                  // LargeBinary
		20: empty,                                  // LargeUtf8
		21: empty,                                  // LargeList
		22: empty,                                  // RunEndEncoded
		23: empty,                                  // BinaryView
		24: empty,                                  // Utf8View
		25: empty,                                  // ListView
		26: empty,                                  // LargeListView
	}
	field := shape()
	field.fields = []flatField{text, number(1), number(1), {kind: flatUnion, types: types}, {kind: flatInner, of: &encoding}, {kind: flatTables, of: &field}, metadata}
	schema := shape(number(2), flatField{kind: flatTables, of: &field}, metadata)
	message := shape(number(2), number(1), flatField{kind: flatUnion, types: []flatShape{headerSchema: schema}})
	return &message
}

// rewriteSchema replaces the header of a message with a header that this package writes and that
// has the same schema. It returns an error if the header is damaged or has no schema.
func (m *message) rewriteSchema() error {
	r := newFlatReader(m.header)
	b := flatbuffers.NewBuilder(len(m.header))
	if message := r.root(); !r.broken {
		at := message.write(b, schemaMessage, 0)
		if !r.broken {
			b.Finish(at)
			m.header, m.body = b.FinishedBytes(), nil
			return nil
		}
	}
	return fault.InvalidField("descriptor", "the first message has no schema that is whole and without unions").
		WithRemedy("send the schema with the descriptor, as the libraries of Arrow write it")
}
