package disk

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/cespare/xxhash/v2"

	"github.com/penstock/penstock/internal/fault"
)

// A chunk's file is a head followed by a body:
//
//	magic    8 bytes
//	version  uint32
//	length   uint32, of the whole head with its padding
//	body     uint64, length of the body
//	cost     uint32
//	fields   the ColumnID, the type of the arrays, rows, and their shape, as varints and texts
//	sums     uint64 for each block of the body, in order
//	padding  zeros, up to a multiple of 64 with the next field
//	sum      uint64, checksum of the head before it
//
// Numbers are little-endian. The body consists of the buffers of the dictionaries and then the
// buffers of the arrays, each padded with zeros to a multiple of 64 bytes. The shape determines the
// extents and blocks. A checksum is an xxhash whose seed is made of the key and the block's number,
// so that blocks of other files or positions do not match.
const (
	magic       = "PENSCOL\n"
	formVersion = 1
	fixedHead   = len(magic) + 4 + 4 + 8 + 4
	// maxHead bounds the head. A chunk whose arrays are so many that they exceed it is not stored.
	maxHead = 1 << 20
	// firstRead is the number of bytes that a reader reads first, since it does not know the length of the head.
	firstRead = 16 << 10
)

// chunkHead is the head of a file.
type chunkHead struct {
	id    ColumnID
	cost  uint32
	of    string // the typeText of the arrays
	shape chunkShape
	sums  []uint64

	rows   int64 // the number of rows of all arrays
	length int64 // the length of the head
	body   int64 // the length of the body
	sealAt int   // the position of the checksums
}

// headSum replaces the block number in the seed of a head's checksum.
const headSum = -1

// checksum returns the checksum of a block.
func checksum(key ChunkKey, block int64, content []byte) uint64 {
	var d xxhash.Digest
	d.ResetWithSeed(seed(key, block))
	_, _ = d.Write(content)
	return d.Sum64()
}

// seed returns the seed of a block's checksum.
func seed(key ChunkKey, block int64) uint64 {
	return binary.LittleEndian.Uint64(key[:]) + uint64(block)
}

// encode returns the encoded head, with space for the checksums that seal adds.
func (h *chunkHead) encode() []byte {
	out := append(make([]byte, 0, firstRead), magic...)
	out = binary.LittleEndian.AppendUint32(out, formVersion)
	out = binary.LittleEndian.AppendUint32(out, 0) // replaced by the length below
	out = binary.LittleEndian.AppendUint64(out, uint64(h.body))
	out = binary.LittleEndian.AppendUint32(out, h.cost)
	for _, text := range []string{h.id.Table, h.id.File, h.id.Type, h.of} {
		out = binary.AppendUvarint(out, uint64(len(text)))
		out = append(out, text...)
	}
	out = binary.AppendVarint(out, h.id.FileSize)
	out = binary.AppendVarint(out, int64(h.id.RowGroup))
	out = binary.AppendVarint(out, int64(h.id.Field))
	out = binary.AppendVarint(out, h.shape.rows())
	for _, arrays := range [][][]arrayNode{h.shape.dictionaries, h.shape.arrays} {
		out = binary.AppendUvarint(out, uint64(len(arrays)))
		for _, nodes := range arrays {
			for _, n := range nodes {
				out = binary.AppendUvarint(out, uint64(n.length))
				out = binary.AppendUvarint(out, uint64(n.nulls))
				out = binary.AppendUvarint(out, uint64(n.extra))
			}
		}
	}
	h.sealAt = len(out)
	h.length = padded(int64(len(out)+len(h.sums)*sumBytes) + sumBytes)
	out = append(out, make([]byte, h.length-int64(len(out)))...)
	binary.LittleEndian.PutUint32(out[len(magic)+4:], uint32(h.length))
	return out
}

const sumBytes = 8

// seal writes the checksums into an encoded head.
func (h *chunkHead) seal(out []byte) {
	for i, sum := range h.sums {
		binary.LittleEndian.PutUint64(out[h.sealAt+i*sumBytes:], sum)
	}
	end := len(out) - sumBytes
	binary.LittleEndian.PutUint64(out[end:], checksum(h.id.Key(), headSum, out[:end]))
}

// headLength returns the length of a head that begins with the given bytes.
func headLength(begin []byte) (int64, error) {
	if len(begin) < fixedHead || string(begin[:len(magic)]) != magic {
		return 0, damaged("it is not a column chunk")
	}
	if v := binary.LittleEndian.Uint32(begin[len(magic):]); v != formVersion {
		return 0, damaged(fmt.Sprintf("its version is %d, not %d", v, formVersion))
	}
	n := int64(binary.LittleEndian.Uint32(begin[len(magic)+4:]))
	if n > maxHead || n < int64(fixedHead)+sumBytes || n%alignment != 0 {
		return 0, damaged("its head has an impossible length")
	}
	return n, nil
}

func damaged(what string) error {
	return fault.New(fault.Corrupt, "a file of the disk tier is damaged: %s", what)
}

// decodeHead decodes and checks the whole head of the chunk with a key. The type of its arrays must
// be one of types; the result has the form of that type.
func decodeHead(content []byte, key ChunkKey, types []arrow.DataType) (*readableChunk, error) {
	h, d, err := decodeID(content, key)
	if err != nil {
		return nil, err
	}
	at := slices.IndexFunc(types, func(t arrow.DataType) bool { return typeText(t) == h.of })
	if at < 0 {
		return nil, fault.New(fault.Invalid, "the disk tier has the column as %s", h.of)
	}
	c := &readableChunk{chunkHead: *h, key: key}
	if c.form, err = formOf(types[at]); err != nil {
		return nil, err
	}
	return c, c.decodeShape(d)
}

// decodeID checks the checksum of the whole head of the chunk with a key, and decodes the head up
// to its shape. The returned decoder is at the shape.
func decodeID(content []byte, key ChunkKey) (*chunkHead, *headDecoder, error) {
	end := len(content) - sumBytes
	if sum := binary.LittleEndian.Uint64(content[end:]); sum != checksum(key, headSum, content[:end]) {
		return nil, nil, damaged("the checksum of its head does not match")
	}
	d := &headDecoder{rest: content[len(magic)+8 : end]}
	h := &chunkHead{length: int64(len(content)), body: int64(d.fixed64()), cost: d.fixed32()}
	for _, text := range []*string{&h.id.Table, &h.id.File, &h.id.Type, &h.of} {
		*text = d.text()
	}
	h.id.FileSize, h.id.RowGroup, h.id.Field = d.signed(), int(d.signed()), int(d.signed())
	h.rows = d.signed()
	if d.failed || h.id.Key() != key {
		return nil, nil, damaged("it is of another column")
	}
	return h, d, nil
}

// readableChunk is a checked head, with everything needed to read the body.
type readableChunk struct {
	chunkHead
	key    ChunkKey
	form   *arrayForm
	forms  []*arrayForm // the forms of the dictionaries
	layout chunkLayout
}

// sizes returns the sizes of the dictionaries or arrays of an extent in bytes. first is the number
// of the first of them.
func (c *readableChunk) sizes(dictionaries bool, first int, e bodyExtent) []int64 {
	out := make([]int64, e.arrays)
	for i := range out {
		if dictionaries {
			out[i], _ = bodyBytes(c.forms[first+i], c.shape.dictionaries[first+i])
		} else {
			out[i], _ = bodyBytes(c.form, c.shape.arrays[first+i])
		}
	}
	return out
}

// decodeShape decodes the shape and the checksums, and checks that the body is exactly as
// long as the shape requires.
func (c *readableChunk) decodeShape(d *headDecoder) error {
	// A dictionary has one node, whatever its type.
	for range d.count() {
		c.shape.dictionaries = append(c.shape.dictionaries, []arrayNode{d.node()})
	}
	for range d.count() {
		nodes, ok := c.decodeArray(d, c.form, nil)
		if !ok || d.failed {
			return damaged("its shape is impossible")
		}
		c.shape.arrays = append(c.shape.arrays, nodes)
	}
	if d.failed || len(c.forms) != len(c.shape.dictionaries) || c.rows != c.shape.rows() {
		return damaged("its shape is impossible")
	}
	for i, f := range c.forms {
		if !f.possible(c.shape.dictionaries[i][0]) {
			return damaged("its shape is impossible")
		}
	}
	var ok bool
	if c.layout, ok = layOut(c.form, c.forms, &c.shape); !ok || c.layout.bytes != c.body {
		return damaged("the length of its body does not match its shape")
	}
	if int64(len(d.rest))/sumBytes < c.layout.blocks() {
		return damaged("checksums are missing")
	}
	for range c.layout.blocks() {
		c.sums = append(c.sums, d.fixed64())
	}
	return nil
}

// decodeArray decodes the nodes of an array. It checks everything that does not depend on the
// content of buffers.
func (c *readableChunk) decodeArray(d *headDecoder, f *arrayForm, nodes []arrayNode) ([]arrayNode, bool) {
	n := d.node()
	if d.failed || !f.possible(n) {
		return nil, false
	}
	if f.kind == dictionaryForm {
		switch known := int64(len(c.forms)); {
		case n.extra == known && known < int64(len(c.shape.dictionaries)):
			c.forms = append(c.forms, f.values)
		case n.extra >= known || !arrow.TypeEqual(c.forms[n.extra].of, f.values.of):
			return nil, false
		}
	}
	nodes = append(nodes, n)
	for _, child := range f.children {
		at := len(nodes)
		var ok bool
		if nodes, ok = c.decodeArray(d, child, nodes); !ok {
			return nil, false
		}
		length := nodes[at].length
		if f.kind == structForm && length != n.length || f.kind == fixedListForm && length != n.length*f.items {
			return nil, false
		}
	}
	return nodes, true
}

// possible reports whether a node is valid for the form.
func (f *arrayForm) possible(n arrayNode) bool {
	switch {
	case n.length < 0, n.length > maxLength, n.nulls < 0, n.nulls > n.length, n.extra < 0, n.extra > maxBody:
		return false
	case f.noNulls && n.nulls > 0, f.kind == nullForm && n.nulls != n.length:
		return false
	case f.kind == textForm && f.bits == offsetBits:
		return n.extra <= maxLength
	default:
		return f.kind == textForm || f.kind == dictionaryForm || n.extra == 0
	}
}

// headDecoder decodes numbers and texts from a head. After the first failure, it returns zero
// values.
type headDecoder struct {
	rest   []byte
	failed bool
}

func (d *headDecoder) take(n uint64) []byte {
	if n > uint64(len(d.rest)) {
		d.failed, d.rest = true, nil
		return make([]byte, min(n, sumBytes))
	}
	out := d.rest[:n]
	d.rest = d.rest[n:]
	return out
}

func (d *headDecoder) fixed64() uint64 { return binary.LittleEndian.Uint64(d.take(8)) }
func (d *headDecoder) fixed32() uint32 { return binary.LittleEndian.Uint32(d.take(4)) }
func (d *headDecoder) text() string    { return string(d.take(d.unsigned())) }

func (d *headDecoder) unsigned() uint64 {
	v, n := binary.Uvarint(d.rest)
	d.take(uint64(max(n, 1)))
	d.failed = d.failed || n <= 0
	return v
}

func (d *headDecoder) signed() int64 {
	v, n := binary.Varint(d.rest)
	d.take(uint64(max(n, 1)))
	d.failed = d.failed || n <= 0
	return v
}

// count decodes a number of arrays. It fails if the rest of the head is too short for so many.
func (d *headDecoder) count() int {
	n := d.unsigned()
	if n > uint64(len(d.rest)) {
		d.failed = true
		return 0
	}
	return int(n)
}

func (d *headDecoder) node() arrayNode {
	return arrayNode{length: int64(d.unsigned()), nulls: int64(d.unsigned()), extra: int64(d.unsigned())}
}
