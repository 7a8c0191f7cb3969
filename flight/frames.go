package flight

import (
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/penstock/penstock/internal/fault"
)

// frames turns the batches of one stream into frames. What the Arrow library
// computes anew (offsets of a slice, bits) comes from the Go heap too.
type frames struct {
	schema  *arrow.Schema
	indexed bool // there are dictionaries
	writer  *ipc.Writer
	begun   bool     // the writer's own schema message has passed
	made    []*frame // of the batch at hand
	lease   *lease   // on it
}

func newFrames(schema *arrow.Schema) *frames {
	f := &frames{schema: schema, indexed: slices.ContainsFunc(schema.Fields(), func(field arrow.Field) bool { return field.Type.ID() == arrow.DICTIONARY })}
	f.begin()
	return f
}

// begin makes a writer. It keeps the dictionaries of its last batch, which the
// lease no longer pays for when the batch has left: where there are dictionaries,
// each batch has a writer of its own.
func (f *frames) begin() {
	f.begun = false
	f.writer = ipc.NewWriterWithPayloadWriter(f, ipc.WithSchema(f.schema), ipc.WithAllocator(memory.NewGoAllocator()))
}

// first returns the schema's frame. The library writes the schema with the
// first batch; a client wants it before that.
func (f *frames) first() (*frame, error) {
	p := ipc.GetSchemaPayload(f.schema, memory.NewGoAllocator())
	defer p.Release()
	return frameOf(&p, nil)
}

// batch returns the frames of a batch: its dictionaries, if any, and the batch
// itself, which alone carries the metadata. They point into the batch's memory,
// which the lease keeps: the caller drops it, and the frames that it did not send,
// also on an error.
func (f *frames) batch(b arrow.RecordBatch, metadata []byte, lease *lease) ([]*frame, error) {
	f.made, f.lease = nil, lease
	if f.indexed {
		defer f.begin()
		defer f.writer.Close() //nolint:errcheck // writes nothing; failures are returned by Write
	}
	if err := f.writer.Write(b); err != nil {
		return f.made, fault.New(fault.Internal, "write a batch of %d rows as Arrow: %w", b.NumRows(), err)
	}
	f.made[len(f.made)-1].metadata = metadata
	return f.made, nil
}

// close gives up what the library holds: dictionaries of the last batch.
func (f *frames) close() error { return f.writer.Close() }

// Start implements ipc.PayloadWriter.
func (f *frames) Start() error { return nil }

// WritePayload implements ipc.PayloadWriter.
func (f *frames) WritePayload(p ipc.Payload) error {
	if !f.begun {
		f.begun = true
		return nil
	}
	made, err := frameOf(&p, f.lease)
	f.made = append(f.made, made)
	return err
}

// Close implements ipc.PayloadWriter.
func (f *frames) Close() error { return nil }

// frameOf points a frame at a payload's memory.
func frameOf(p *ipc.Payload, lease *lease) (*frame, error) {
	meta := p.Meta()
	defer meta.Release()
	f := &frame{header: meta.Bytes(), lease: lease}
	return f, p.SerializeBody(f)
}
