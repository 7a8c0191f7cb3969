// Package puffin encodes and decodes Puffin files, in which Iceberg keeps statistics of snapshots.
//
// A file consists of blobs and a footer that describes them. Decode keeps the description of each blob, and its bytes as they are
// stored, so that a blob can be copied to another file even if this version does not know its type, its compression or some
// of its members. The package works on bytes in memory; it does no I/O. Decode takes no more memory than a small multiple of
// the file's footer, and its blobs share the memory of the file.
//
// Source: https://iceberg.apache.org/puffin-spec/.
package puffin

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"maps"
	"math"
	"slices"

	"github.com/penstock/penstock/internal/fault"
)

// ThetaSketch is the type of blobs with a theta sketch of the distinct values of one column.
const ThetaSketch = "apache-datasketches-theta-v1"

const (
	magic = "PFA1"
	// tailBytes is the size of what follows the payload of the footer: its size, the flags and the magic.
	tailBytes  = 4 + flagBytes + len(magic)
	flagBytes  = 4
	offsetName = "offset"
	lengthName = "length"
)

// Blob is a blob of a file.
type Blob struct {
	Type             string            `json:"type"`
	Fields           []int             `json:"fields"` // ids of the columns
	Snapshot         int64             `json:"snapshot-id"`
	Sequence         int64             `json:"sequence-number"` // of the snapshot
	CompressionCodec string            `json:"compression-codec,omitempty"`
	Properties       map[string]string `json:"properties,omitempty"`

	// Content has the bytes as they are stored.
	Content []byte `json:"-"`
	// members has all members of the description in a file that was decoded.
	members map[string]json.RawMessage
}

// footerText is the payload of a footer.
type footerText struct {
	Blobs      []map[string]json.RawMessage `json:"blobs"`
	Properties map[string]string            `json:"properties,omitempty"`
}

// Encode returns a file with the blobs, and the size of its footer in bytes.
func Encode(blobs []Blob, properties map[string]string) (file []byte, footer int64, err error) {
	file = []byte(magic)
	text := footerText{Blobs: []map[string]json.RawMessage{}, Properties: properties}
	for _, b := range blobs {
		described, err := b.described(len(file))
		if err != nil {
			return nil, 0, err
		}
		text.Blobs = append(text.Blobs, described)
		file = append(file, b.Content...)
	}
	payload, err := json.Marshal(text)
	if err != nil {
		return nil, 0, fault.New(fault.Internal, "encode a Puffin file: %w", err)
	}
	begin := len(file)
	file = append(append(file, magic...), payload...)
	file = binary.LittleEndian.AppendUint32(file, uint32(len(payload))) //nolint:gosec // far less
	file = append(append(file, make([]byte, flagBytes)...), magic...)
	return file, int64(len(file) - begin), nil
}

// described returns the description of a blob at an offset.
func (b Blob) described(offset int) (map[string]json.RawMessage, error) {
	own, err := json.Marshal(b)
	if err != nil {
		return nil, fault.New(fault.Internal, "encode a blob of a Puffin file: %w", err)
	}
	out := map[string]json.RawMessage{}
	if err := json.Unmarshal(own, &out); err != nil {
		return nil, fault.New(fault.Internal, "encode a blob of a Puffin file: %w", err)
	}
	maps.Copy(out, b.members)
	for name, n := range map[string]int{offsetName: offset, lengthName: len(b.Content)} {
		if out[name], err = json.Marshal(n); err != nil {
			return nil, fault.New(fault.Internal, "encode a blob of a Puffin file: %w", err)
		}
	}
	return out, nil
}

// Decode returns the blobs of a file. It returns Corrupt for a file that is not a Puffin file, and Invalid for a compressed
// footer.
func Decode(file []byte) ([]Blob, error) {
	corrupt := func(what string) ([]Blob, error) {
		return nil, fault.New(fault.Corrupt, "it is not a Puffin file: %s", what)
	}
	if len(file) < 2*len(magic)+tailBytes || string(file[:len(magic)]) != magic || string(file[len(file)-len(magic):]) != magic {
		return corrupt("its magic bytes are missing")
	}
	tail := file[len(file)-tailBytes:]
	size := int(binary.LittleEndian.Uint32(tail))
	begin := len(file) - tailBytes - size - len(magic)
	if size > math.MaxInt32 || begin < len(magic) || string(file[begin:begin+len(magic)]) != magic {
		return corrupt("the size of its footer is wrong")
	}
	if !bytes.Equal(tail[4:4+flagBytes], make([]byte, flagBytes)) {
		return nil, fault.New(fault.Invalid, "its footer is compressed, which is not supported")
	}
	var text footerText
	if err := json.Unmarshal(file[begin+len(magic):len(file)-tailBytes], &text); err != nil {
		return corrupt("its footer cannot be read: " + err.Error())
	}
	out := make([]Blob, 0, len(text.Blobs))
	for _, members := range text.Blobs {
		b, err := blobOf(members, file[:begin])
		if err != nil {
			return corrupt("a blob is described wrongly: " + err.Error())
		}
		out = append(out, b)
	}
	return out, nil
}

// blobOf decodes the description of a blob of a file, which is given without its footer.
func blobOf(members map[string]json.RawMessage, file []byte) (b Blob, err error) {
	text, err := json.Marshal(members)
	if err != nil {
		return b, err
	}
	place := struct {
		Offset *int64 `json:"offset"`
		Length *int64 `json:"length"`
	}{}
	if err := json.Unmarshal(text, &b); err != nil {
		return b, err
	}
	if err := json.Unmarshal(text, &place); err != nil {
		return b, err
	}
	if b.Type == "" || place.Offset == nil || place.Length == nil {
		return b, fault.New(fault.Corrupt, "its type or its place is missing")
	}
	offset, length, end := *place.Offset, *place.Length, int64(len(file))
	if offset < int64(len(magic)) || length < 0 || offset > end || length > end-offset {
		return b, fault.New(fault.Corrupt, "it is outside of the file")
	}
	b.members, b.Content = members, file[offset:offset+length:offset+length]
	return b, nil
}

// Describes reports whether the blob is of a type and of exactly one column.
func (b Blob) Describes(kind string, field int) bool {
	return b.Type == kind && slices.Equal(b.Fields, []int{field})
}
