package frames

import (
	"encoding/binary"

	"github.com/apache/arrow-go/v18/arrow"
)

// Sizes of an IPC stream, in bytes (Arrow columnar format, "Encapsulated message format").
const (
	ipcPrefix = 8  // before a header: a marker and the header's size
	ipcEnd    = 8  // after the last message
	ipcAlign  = 64 // of bodies, so that readers need not copy
)

// ipcMarker begins a message.
const ipcMarker = 0xFFFFFFFF

// paddedHeader returns the size of the header of a message at an offset, such that the body behind it is
// aligned.
func paddedHeader(at int, m message) int {
	body := at + ipcPrefix + len(m.header)
	return len(m.header) + (ipcAlign-body%ipcAlign)%ipcAlign
}

// Messages are the messages of a complete IPC stream.
type Messages []message

// Complete returns the messages of an IPC stream of one batch: those of its schema and of the batch.
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

// Write writes the stream to memory of its size, and returns how much it has written.
func (all Messages) Write(to []byte) int {
	at := 0
	for _, m := range all {
		header := paddedHeader(at, m)
		binary.LittleEndian.PutUint32(to[at:], ipcMarker)
		binary.LittleEndian.PutUint32(to[at+4:], uint32(header))
		at += ipcPrefix
		clear(to[at+copy(to[at:], m.header) : at+header])
		at += header
		for _, part := range m.body {
			at += copy(to[at:], part)
		}
	}
	binary.LittleEndian.PutUint32(to[at:], ipcMarker)
	binary.LittleEndian.PutUint32(to[at+4:], 0)
	return at + ipcEnd
}
