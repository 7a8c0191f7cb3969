package rowsin

import (
	"slices"

	flatbuffers "github.com/google/flatbuffers/go"

	"github.com/penstock/penstock/internal/fault"
)

// Slots of fields in the tables of a header of a batch or a dictionary, as in Arrow's Message.fbs.
const (
	slotVersion, slotHeaderType, slotHeader = 0, 1, 2 // of Message
	messageSlots                            = 3
	slotRows, slotNodes, slotBuffers        = 0, 1, 2 // of RecordBatch
	slotCompression, slotVariadic           = 3, 4
	batchSlots                              = 5
	slotDictionaryID, slotDictionary        = 0, 1 // of DictionaryBatch
	slotIsDelta                             = 2
	dictionarySlots                         = 3
	slotCodec, slotMethod                   = 0, 1    // of BodyCompression
	headerDictionaryBatch, headerBatch      = 2, 3    // of the union MessageHeader
	flatPair                                = 16      // bytes of the structs FieldNode and Buffer
	maxBatchRows                            = 1 << 24 // columns without buffers, such as columns of nulls, could otherwise claim any number of rows
	maxArrayLength                          = 1<<31 - 1
)

// bodyCodec is the codec that compresses each buffer of a body separately.
type bodyCodec int

// Codecs of bodies.
const (
	notCompressed bodyCodec = iota
	lz4Frame
	zstdFrame
)

// flatSpan is a struct of two numbers. For a buffer, they are its offset in the body and its size.
// For an array, they are its length and its number of nulls.
type flatSpan struct{ first, second int64 }

// batchHeader is the header of a message with a batch or a dictionary.
type batchHeader struct {
	version      uint64
	isDictionary bool
	isDelta      bool
	dictionary   int64 // the id of the dictionary
	rows         int64
	nodes        []flatSpan // arrays, nested ones included
	buffers      []flatSpan
	codec        bodyCodec
	variadic     []int64 // the number of data buffers of each array of views
}

// inspect reads the header of a message with a batch or a dictionary.
func (m *message) inspect() (batchHeader, error) {
	r := newFlatReader(m.header)
	root := r.root()
	out := batchHeader{version: root.value(slotVersion, 2)}
	of, ok := root.inner(slotHeader)
	kind := root.value(slotHeaderType, 1)
	if ok && kind == headerDictionaryBatch {
		out.isDictionary, out.isDelta = true, of.value(slotIsDelta, 1) != 0
		out.dictionary = int64(of.value(slotDictionaryID, 8)) //nolint:gosec // two's complement
		of, ok = of.inner(slotDictionary)
	}
	if r.broken {
		return out, r.err()
	}
	if !ok || kind != headerBatch && kind != headerDictionaryBatch {
		return out, fault.New(fault.Invalid, "a message has neither a batch nor a dictionary").WithRemedy("send batches after the schema")
	}
	out.rows = int64(of.value(slotRows, 8)) //nolint:gosec // two's complement
	out.nodes, out.buffers = of.pairs(slotNodes), of.pairs(slotBuffers)
	first, n := of.list(slotVariadic, 8)
	for i := range n {
		out.variadic = append(out.variadic, int64(r.number(first+int64(i)*8, 8))) //nolint:gosec // two's complement
	}
	if compression, compressed := of.inner(slotCompression); compressed {
		switch compression.value(slotCodec, 1) {
		case 0:
			out.codec = lz4Frame
		case 1:
			out.codec = zstdFrame
		default:
			r.broken = true
		}
		r.broken = r.broken || compression.value(slotMethod, 1) != 0
	}
	if r.broken {
		return out, r.err()
	}
	return out, out.check(int64(len(m.body)))
}

// pairs returns a list of structs of two numbers.
func (t flatTable) pairs(slot int) []flatSpan {
	first, n := t.list(slot, flatPair)
	out := make([]flatSpan, n)
	for i := range out {
		at := first + int64(i)*flatPair
		out[i] = flatSpan{int64(t.number(at, 8)), int64(t.number(at+8, 8))} //nolint:gosec // two's complement
	}
	return out
}

// check returns an error if a number in the header is impossible for a message with a body of the
// given number of bytes.
func (h *batchHeader) check(body int64) error {
	damaged := func(format string, values ...any) error {
		return fault.New(fault.Invalid, format, values...).WithRemedy("write the rows with an Arrow library")
	}
	if h.rows < 0 {
		return damaged("a batch has %d rows", h.rows)
	}
	for _, n := range h.nodes {
		if n.first < 0 || n.first > maxArrayLength || n.second < -1 || n.second > n.first {
			return damaged("an array has %d values, %d of them null", n.first, n.second)
		}
	}
	left := body // the sum of the buffers may not exceed the body: overlapping bytes would be copied several times
	for _, b := range h.buffers {
		if b.second == 0 {
			continue
		}
		if left -= b.second; b.first < 0 || b.second < 0 || left < 0 || b.first > body-b.second {
			return damaged("a buffer of %d bytes from byte %d overlaps another buffer, or exceeds the body of %d bytes", b.second, b.first, body)
		}
	}
	buffers := int64(len(h.buffers))
	for _, n := range h.variadic {
		if n < 0 || n > buffers {
			return damaged("a column has %d buffers, and the batch has %d left", n, buffers)
		}
		buffers -= n
	}
	return nil
}

// encode writes h as the header of a message with an uncompressed body.
func (h *batchHeader) encode() []byte {
	b := flatbuffers.NewBuilder(256 + flatPair*(len(h.nodes)+len(h.buffers)) + 8*len(h.variadic))
	nodes, buffers := writePairs(b, h.nodes), writePairs(b, h.buffers)
	var variadic flatbuffers.UOffsetT
	if len(h.variadic) > 0 {
		b.StartVector(8, len(h.variadic), 8)
		for _, n := range slices.Backward(h.variadic) {
			b.PrependInt64(n)
		}
		variadic = b.EndVector(len(h.variadic))
	}
	b.StartObject(batchSlots)
	b.PrependInt64Slot(slotRows, h.rows, 0)
	b.PrependUOffsetTSlot(slotNodes, nodes, 0)
	b.PrependUOffsetTSlot(slotBuffers, buffers, 0)
	b.PrependUOffsetTSlot(slotVariadic, variadic, 0)
	header, kind := b.EndObject(), byte(headerBatch)
	if h.isDictionary {
		b.StartObject(dictionarySlots)
		b.PrependInt64Slot(slotDictionaryID, h.dictionary, 0)
		b.PrependUOffsetTSlot(slotDictionary, header, 0)
		b.PrependBoolSlot(slotIsDelta, h.isDelta, false)
		header, kind = b.EndObject(), headerDictionaryBatch
	}
	b.StartObject(messageSlots)
	b.PrependUint16Slot(slotVersion, uint16(h.version), 0) //nolint:gosec // two bytes were read
	b.PrependByteSlot(slotHeaderType, kind, 0)
	b.PrependUOffsetTSlot(slotHeader, header, 0)
	b.Finish(b.EndObject())
	return b.FinishedBytes()
}

// writePairs writes a list of structs of two numbers.
func writePairs(b *flatbuffers.Builder, all []flatSpan) flatbuffers.UOffsetT {
	b.StartVector(flatPair, len(all), 8)
	for _, one := range slices.Backward(all) {
		b.Prep(8, flatPair)
		b.PrependInt64(one.second)
		b.PrependInt64(one.first)
	}
	return b.EndVector(len(all))
}
