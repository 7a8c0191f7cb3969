package rowsin

import (
	"context"
	"errors"
	"io"

	"github.com/apache/arrow-go/v18/arrow"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/fault"
)

// Message is a FlightData message of a stream, as it came. Its memory does not change.
type Message struct{ message }

// HasArrow reports whether the message contains an Arrow message: a schema, a dictionary or a batch.
func (m *Message) HasArrow() bool { return len(m.header) > 0 }

// Header returns the header of the Arrow message. The caller does not change it.
func (m *Message) Header() []byte { return m.header }

// Metadata returns the app_metadata.
func (m *Message) Metadata() []byte { return m.metadata }

// Marshal returns the message as protobuf encodes it. The body is not copied.
func (m *Message) Marshal() mem.BufferSlice {
	var head []byte
	for _, f := range []struct {
		number protowire.Number
		value  []byte
	}{{fieldHeader, m.header}, {fieldMetadata, m.metadata}} {
		if len(f.value) > 0 {
			head = protowire.AppendTag(head, f.number, protowire.BytesType)
			head = protowire.AppendBytes(head, f.value)
		}
	}
	if len(m.body) == 0 {
		return mem.BufferSlice{mem.SliceBuffer(head)}
	}
	head = protowire.AppendTag(head, fieldBody, protowire.BytesType)
	head = protowire.AppendVarint(head, uint64(len(m.body)))
	return mem.BufferSlice{mem.SliceBuffer(head), mem.SliceBuffer(m.body)}
}

// Part is a message that was read for a batch.
type Part struct {
	*Message
	IsDictionary bool
	Dictionary   int64 // the id of the dictionary
}

// Part returns the message as a part of a batch.
func (m *Message) Part() Part {
	head, err := m.inspect()
	return Part{m, err == nil && head.isDictionary, head.dictionary}
}

// ServedMemory returns the bytes that a stream of messages of at most limit bytes takes: the message
// that is received and its copy, and as many bytes of dictionaries, which are kept until others
// replace them.
func ServedMemory(limit int64) int64 { return 3 * limit }

// Served reads the batches of a stream that another server sends. Like Rows, it trusts nothing in a
// message. Unlike Rows, it charges no memory: its caller charges ServedMemory, and receives no message
// of more bytes. Compressed bodies are refused.
type Served struct {
	rows  *Rows
	next  func(context.Context) (*Message, error)
	parts []Part
	ended bool
}

// OpenServed reads the schema in the first message of a stream. The function next returns further
// messages of at most limit bytes, or io.EOF at the end of the stream. The caller closes the result.
func OpenServed(ctx context.Context, first *Message, next func(context.Context) (*Message, error), limit int64) (*Served, error) {
	s := &Served{next: next}
	s.rows = &Rows{
		limit: limit, first: &message{header: first.header}, sizes: map[int64]int64{}, next: s.following,
		held: &budget.Reservation{}, kept: &budget.Reservation{}, // they only count
	}
	if err := s.rows.begin(ctx); err != nil {
		s.Close()
		return nil, err
	}
	s.rows.kept.Shrink(s.rows.kept.Held()) // the schema is small
	return s, nil
}

// Schema returns the schema of the batches.
func (s *Served) Schema() *arrow.Schema { return s.rows.schema }

// Next returns the next batch, which the caller releases. It returns nil if the next message has no
// batch, or at the end of the stream. After that, or after an error, Next may not be called again.
func (s *Served) Next(ctx context.Context) (arrow.RecordBatch, error) {
	s.parts = nil
	b, err := s.rows.batch(ctx)
	if s.ended {
		return nil, nil //nolint:nilnil // there is no batch
	}
	return b, err
}

// Parts returns the messages that were received since the last call of Next began: dictionaries, and
// the message of a batch or one without.
func (s *Served) Parts() []Part { return s.parts }

// Close frees the memory. It is called once.
func (s *Served) Close() { s.rows.Close() }

// following returns the next message for decoding, which replaces the header.
func (s *Served) following(ctx context.Context) (*message, error) {
	if s.rows.kept.Held() > s.rows.limit {
		return nil, tooLargeBatch(s.rows.limit)
	}
	m, err := s.next(ctx)
	if err != nil {
		s.ended = errors.Is(err, io.EOF)
		return nil, err
	}
	if !m.HasArrow() {
		s.parts, s.ended = append(s.parts, Part{Message: m}), true
		return nil, io.EOF
	}
	head, err := m.inspect()
	s.parts = append(s.parts, Part{m, head.isDictionary, head.dictionary})
	if err == nil && head.codec != notCompressed {
		err = fault.New(fault.Invalid, "a message is compressed").WithRemedy("turn off the compression of batches")
	}
	return &message{header: m.header, body: m.body}, err
}
