package frames

import (
	"encoding/binary"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock/penstock/internal/cores"
)

// Sizes of an IPC stream, in bytes (Arrow columnar format, "Encapsulated message format").
const (
	ipcPrefix = 8  // the marker and the header's size, before a header
	ipcEnd    = 8  // the end marker, after the last message
	ipcAlign  = 64 // the alignment of bodies, so that readers need not copy
)

// ipcMarker is the marker at the start of each message.
const ipcMarker = 0xFFFFFFFF

// paddedHeader returns the padded size of a message's header, such that the body after it is
// aligned. The message is at the given offset.
func paddedHeader(at int, m message) int {
	body := at + ipcPrefix + len(m.header)
	return len(m.header) + (ipcAlign-body%ipcAlign)%ipcAlign
}

// Messages are the messages of a complete IPC stream.
type Messages []message

// Complete returns the messages of an IPC stream of one batch: the message of the schema, and the
// messages of the batch.
func (f *Encoder) Complete(b arrow.RecordBatch, lease *Lease) (Messages, error) {
	schema, err := f.schemaMessage()
	if err != nil {
		return nil, err
	}
	made, err := f.messages(b, lease)
	if err != nil {
		return nil, err
	}
	return append(Messages{schema}, made...), nil
}

// Size returns the size of the stream, in bytes.
func (all Messages) Size() int {
	at := 0
	for _, m := range all {
		at += ipcPrefix + paddedHeader(at, m)
		for _, part := range m.body {
			at += len(part)
		}
	}
	return at + ipcEnd
}

// copyBytes is the maximum size of a copy, and coreBytes the number of bytes for which it is
// worthwhile to wake a core.
const copyBytes, coreBytes = 256 << 10, 128 << 10

// Write writes the stream to a slice of at least its size, on idle cores too, and returns the number
// of bytes written.
func (all Messages) Write(to []byte, on *cores.Cores) (int, error) {
	at := 0
	var copies []struct{ to, from []byte }
	for _, m := range all {
		header := paddedHeader(at, m)
		binary.LittleEndian.PutUint32(to[at:], ipcMarker)
		binary.LittleEndian.PutUint32(to[at+4:], uint32(header))
		at += ipcPrefix
		clear(to[at+copy(to[at:], m.header) : at+header])
		at += header
		for _, part := range m.body {
			for from := range slices.Chunk(part, copyBytes) {
				copies = append(copies, struct{ to, from []byte }{to[at : at+len(from)], from})
				at += len(from)
			}
		}
	}
	binary.LittleEndian.PutUint32(to[at:], ipcMarker)
	binary.LittleEndian.PutUint32(to[at+4:], 0)
	err := on.Groups(len(copies), coreBytes, func(i int) int { return len(copies[i].from) }, func(i int) { copy(copies[i].to, copies[i].from) })
	return at + ipcEnd, err
}
