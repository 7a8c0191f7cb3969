package parquet

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

	// The kinds of pages that are read. Pages of other kinds, such as indexes, are skipped.
	pageData       = 0
	pageDictionary = 2
	pageDataV2     = 3
)

var (
	errPageReaches  = errors.New("a page reaches past its column chunk")
	errPageChecksum = errors.New("a page does not match its checksum")
)

// readPage reads a page and verifies its checksum. It returns the header, and the stored
// bytes.
func readPage(t *thrift.Reader) (pageHeader, []byte, error) {
	h, body, err := readBody(t)
	if err == nil {
		err = h.check(body)
	}
	return h, body, err
}

// readBody reads a page without verifying its checksum.
func readBody(t *thrift.Reader) (pageHeader, []byte, error) {
	h, err := readHeader(t)
	switch {
	case err != nil:
		return h, nil, err
	case h.stored < 0 || h.stored > int64(len(t.Rest)):
		return h, nil, errPageReaches
	}
	body := t.Rest[:h.stored]
	t.Rest = t.Rest[h.stored:]
	return h, body, nil
}

// check compares the stored bytes of a page with its checksum, if it has one.
func (h *pageHeader) check(body []byte) error {
	if h.crc != nil && crc32.ChecksumIEEE(body) != *h.crc {
		return errPageChecksum
	}
	return nil
}

// pageHeader is a Thrift PageHeader. Missing numbers are -1.
type pageHeader struct {
	kind         int64
	uncompressed int64   // bytes before compression
	stored       int64   // bytes in the file
	crc          *uint32 // nil: none

	// Of the data or dictionary page header.
	count, encoding                        int64
	definitionEncoding, repetitionEncoding int64
	definitionBytes, repetitionBytes       int64 // version 2
	rows                                   int64 // version 2
	valuesCompressed                       bool  // version 2: whether the values are compressed
}

// readHeader reads a page header.
func readHeader(t *thrift.Reader) (pageHeader, error) {
	h := pageHeader{kind: -1, uncompressed: -1, stored: -1, count: -1, encoding: -1, definitionEncoding: -1, repetitionEncoding: -1, definitionBytes: -1, repetitionBytes: -1, rows: -1, valuesCompressed: true}
	err := t.Fields(func(id int64, kind byte) error {
		switch {
		case id == headerKind && kind == thrift.I32:
			return t.Number(&h.kind)
		case id == headerPlainSize && kind == thrift.I32:
			return t.Number(&h.uncompressed)
		case id == headerStoredSize && kind == thrift.I32:
			return t.Number(&h.stored)
		case id == headerCRC && kind == thrift.I32:
			v, err := t.Varint()
			sum := uint32(v) //nolint:gosec // the checksum is stored as a signed number
			h.crc = &sum
			return err
		case id == headerData && kind == thrift.Struct:
			return t.Numbers(&h.count, &h.encoding, &h.definitionEncoding, &h.repetitionEncoding)
		case id == headerDictionary && kind == thrift.Struct:
			return t.Numbers(&h.count, &h.encoding)
		case id == headerDataV2 && kind == thrift.Struct:
			return readDataV2(t, &h)
		default:
			return t.Skip(kind, thrift.MaxDepth)
		}
	})
	return h, err
}

// readDataV2 reads the header of a version 2 data page.
func readDataV2(t *thrift.Reader, h *pageHeader) error {
	var nulls int64
	into := []*int64{&h.count, &nulls, &h.rows, &h.encoding, &h.definitionBytes, &h.repetitionBytes}
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

// append writes the header of a version 1 data page, or of a dictionary page, in the
// compact protocol.
func (h *pageHeader) append(out []byte) []byte {
	number := func(v int64) { out = binary.AppendVarint(append(out, 1<<4|thrift.I32), v) } // the next field
	number(h.kind)
	number(h.uncompressed)
	number(h.stored)
	field := byte(headerData)
	if h.kind == pageDictionary {
		field = headerDictionary
	}
	out = append(out, (field-headerStoredSize)<<4|thrift.Struct)
	number(h.count)
	number(h.encoding)
	if h.kind == pageData {
		number(int64(parquet.Encodings.RLE))
		number(int64(parquet.Encodings.RLE))
	}
	return append(out, 0, 0)
}
