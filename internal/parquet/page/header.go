package page

import (
	"encoding/binary"
	"errors"
	"hash/crc32"

	"github.com/apache/arrow-go/v18/parquet"

	"github.com/penstock/penstock/internal/parquet/thrift"
)

const (
	// The ids of the fields of a PageHeader that are read.
	headerKind       = 1
	headerPlainSize  = 2
	headerStoredSize = 3
	headerCRC        = 4
	headerData       = 5
	headerDictionary = 7
	headerDataV2     = 8

	// Data is the kind of version 1 data pages. Pages of kinds that are not listed here, such as
	// index pages, are skipped.
	Data = 0
	// Dictionary is the kind of dictionary pages.
	Dictionary = 2
	// DataV2 is the kind of version 2 data pages.
	DataV2 = 3
)

var (
	errPageReaches  = errors.New("a page reaches past its column chunk")
	errPageChecksum = errors.New("a page does not match its checksum")
)

// Read reads a page and verifies its checksum. It returns the header, and the stored
// bytes.
func Read(t *thrift.Reader) (Header, []byte, error) {
	h, body, err := ReadBody(t)
	if err == nil {
		err = h.check(body)
	}
	return h, body, err
}

// ReadBody reads a page without verifying its checksum.
func ReadBody(t *thrift.Reader) (Header, []byte, error) {
	h, err := readHeader(t)
	switch {
	case err != nil:
		return h, nil, err
	case h.Stored < 0 || h.Stored > int64(len(t.Rest)):
		return h, nil, errPageReaches
	}
	body := t.Rest[:h.Stored]
	t.Rest = t.Rest[h.Stored:]
	return h, body, nil
}

// check compares the stored bytes of a page with its checksum, if it has one.
func (h *Header) check(body []byte) error {
	if h.crc != nil && crc32.ChecksumIEEE(body) != *h.crc {
		return errPageChecksum
	}
	return nil
}

// Header is a Thrift PageHeader. Missing numbers are -1.
type Header struct {
	Kind         int64
	Uncompressed int64   // bytes before compression
	Stored       int64   // bytes in the file
	crc          *uint32 // nil: none

	// From the header of a data page or of a dictionary page.
	Count, Encoding                        int64
	DefinitionEncoding, repetitionEncoding int64
	definitionBytes, RepetitionBytes       int64 // version 2
	Rows                                   int64 // version 2
	valuesCompressed                       bool  // version 2: whether the values are compressed
}

// readHeader reads a page header.
func readHeader(t *thrift.Reader) (Header, error) {
	h := Header{Kind: -1, Uncompressed: -1, Stored: -1, Count: -1, Encoding: -1, DefinitionEncoding: -1, repetitionEncoding: -1, definitionBytes: -1, RepetitionBytes: -1, Rows: -1, valuesCompressed: true}
	err := t.Fields(func(id int64, kind byte) error {
		switch {
		case id == headerKind && kind == thrift.I32:
			return t.Number(&h.Kind)
		case id == headerPlainSize && kind == thrift.I32:
			return t.Number(&h.Uncompressed)
		case id == headerStoredSize && kind == thrift.I32:
			return t.Number(&h.Stored)
		case id == headerCRC && kind == thrift.I32:
			v, err := t.Varint()
			sum := uint32(v) //nolint:gosec // the checksum is stored as a signed number
			h.crc = &sum
			return err
		case id == headerData && kind == thrift.Struct:
			return t.Numbers(&h.Count, &h.Encoding, &h.DefinitionEncoding, &h.repetitionEncoding)
		case id == headerDictionary && kind == thrift.Struct:
			return t.Numbers(&h.Count, &h.Encoding)
		case id == headerDataV2 && kind == thrift.Struct:
			return readDataV2(t, &h)
		default:
			return t.Skip(kind, thrift.MaxDepth)
		}
	})
	return h, err
}

// readDataV2 reads the header of a version 2 data page.
func readDataV2(t *thrift.Reader, h *Header) error {
	var nulls int64
	into := []*int64{&h.Count, &nulls, &h.Rows, &h.Encoding, &h.definitionBytes, &h.RepetitionBytes}
	return t.Fields(func(id int64, kind byte) error {
		switch {
		case id >= 1 && id <= int64(len(into)) && kind == thrift.I32:
			return t.Number(into[id-1])
		case id == 7 && (kind == thrift.True || kind == thrift.False):
			h.valuesCompressed = kind == thrift.True
			return nil
		default:
			return t.Skip(kind, thrift.MaxDepth-1)
		}
	})
}

// Append writes the header of a version 1 data page, or of a dictionary page, in the
// compact protocol.
func (h *Header) Append(out []byte) []byte {
	number := func(v int64) { out = binary.AppendVarint(append(out, 1<<4|thrift.I32), v) } // the next field
	number(h.Kind)
	number(h.Uncompressed)
	number(h.Stored)
	field := byte(headerData)
	if h.Kind == Dictionary {
		field = headerDictionary
	}
	out = append(out, (field-headerStoredSize)<<4|thrift.Struct)
	number(h.Count)
	number(h.Encoding)
	if h.Kind == Data {
		number(int64(parquet.Encodings.RLE))
		number(int64(parquet.Encodings.RLE))
	}
	return append(out, 0, 0)
}
