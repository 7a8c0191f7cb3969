package parquet

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
)

// Page headers are Thrift structs in the compact protocol. These are its element types
// and the ids of the header fields that are read.
const (
	thriftTrue   = 1
	thriftFalse  = 2
	thriftByte   = 3
	thriftI16    = 4
	thriftI32    = 5
	thriftI64    = 6
	thriftDouble = 7
	thriftBinary = 8
	thriftList   = 9
	thriftSet    = 10
	thriftMap    = 11
	thriftStruct = 12

	headerKind       = 1
	headerPlainSize  = 2
	headerStoredSize = 3
	headerCRC        = 4
	headerData       = 5
	headerDictionary = 7
	headerDataV2     = 8

	pageData       = 0
	pageIndex      = 1
	pageDictionary = 2
	pageDataV2     = 3

	maxThriftDepth = 16 // maximum nesting; page headers need four
)

var (
	errThrift       = errors.New("a page header cannot be read")
	errPageReaches  = errors.New("a page reaches past its column chunk")
	errPageChecksum = errors.New("a page does not match its checksum")
)

// thrift reads the compact protocol from the front of a buffer.
type thrift struct {
	rest    []byte
	structs int64 // number of structs skipped
}

// page reads a page and verifies its checksum. It returns the header, and the stored
// bytes.
func (t *thrift) page() (pageHeader, []byte, error) {
	h, body, err := t.body()
	if err == nil {
		err = h.check(body)
	}
	return h, body, err
}

// body reads a page without verifying its checksum.
func (t *thrift) body() (pageHeader, []byte, error) {
	h, err := t.pageHeader()
	switch {
	case err != nil:
		return h, nil, err
	case h.stored < 0 || h.stored > int64(len(t.rest)):
		return h, nil, errPageReaches
	}
	body := t.rest[:h.stored]
	t.rest = t.rest[h.stored:]
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
	valuesCompressed                       bool  // version 2: whether the values are compressed
}

// pageHeader reads a page header.
func (t *thrift) pageHeader() (pageHeader, error) {
	h := pageHeader{kind: -1, uncompressed: -1, stored: -1, count: -1, encoding: -1, definitionEncoding: -1, repetitionEncoding: -1, definitionBytes: -1, repetitionBytes: -1, valuesCompressed: true}
	err := t.fields(func(id int64, kind byte) error {
		switch {
		case id == headerKind && kind == thriftI32:
			return t.number(&h.kind)
		case id == headerPlainSize && kind == thriftI32:
			return t.number(&h.uncompressed)
		case id == headerStoredSize && kind == thriftI32:
			return t.number(&h.stored)
		case id == headerCRC && kind == thriftI32:
			v, err := t.varint()
			sum := uint32(v) //nolint:gosec // the checksum is stored as a signed number
			h.crc = &sum
			return err
		case id == headerData && kind == thriftStruct:
			return t.numbers(&h.count, &h.encoding, &h.definitionEncoding, &h.repetitionEncoding)
		case id == headerDictionary && kind == thriftStruct:
			return t.numbers(&h.count, &h.encoding)
		case id == headerDataV2 && kind == thriftStruct:
			return t.dataV2(&h)
		default:
			return t.skip(kind, maxThriftDepth)
		}
	})
	return h, err
}

// dataV2 reads the header of a version 2 data page.
func (t *thrift) dataV2(h *pageHeader) error {
	var nulls, rows int64
	into := []*int64{&h.count, &nulls, &rows, &h.encoding, &h.definitionBytes, &h.repetitionBytes}
	return t.fields(func(id int64, kind byte) error {
		switch {
		case id >= 1 && id <= int64(len(into)) && kind == thriftI32:
			return t.number(into[id-1])
		case id == 7 && (kind == thriftTrue || kind == thriftFalse):
			h.valuesCompressed = kind == thriftTrue
			return nil
		default:
			return t.skip(kind, maxThriftDepth-1)
		}
	})
}

// numbers reads a struct whose first fields are numbers into the given variables.
func (t *thrift) numbers(into ...*int64) error {
	return t.fields(func(id int64, kind byte) error {
		if id >= 1 && id <= int64(len(into)) && kind == thriftI32 {
			return t.number(into[id-1])
		}
		return t.skip(kind, maxThriftDepth-1)
	})
}

// number reads a 32-bit number.
func (t *thrift) number(into *int64) error {
	v, err := t.varint()
	if v != int64(int32(v)) {
		return errThrift
	}
	*into = v
	return err
}

// fields calls read for each field of a struct; read consumes the value.
func (t *thrift) fields(read func(id int64, kind byte) error) error {
	var id int64
	for {
		head, err := t.byte()
		if err != nil || head == 0 {
			return err
		}
		if delta := int64(head >> 4); delta != 0 {
			id += delta
		} else if id, err = t.varint(); err != nil {
			return err
		}
		if err := read(id, head&0xf); err != nil {
			return err
		}
	}
}

// skip skips a value.
func (t *thrift) skip(kind byte, depth int) error {
	if depth == 0 {
		return errThrift
	}
	switch kind {
	case thriftTrue, thriftFalse:
		return nil
	case thriftByte:
		return t.skipBytes(1)
	case thriftI16, thriftI32, thriftI64:
		_, err := t.varint()
		return err
	case thriftDouble:
		return t.skipBytes(8)
	case thriftBinary:
		n, err := t.uvarint()
		if err != nil {
			return err
		}
		return t.skipBytes(n)
	case thriftStruct:
		t.structs++
		return t.fields(func(_ int64, kind byte) error { return t.skip(kind, depth-1) })
	case thriftList, thriftSet:
		return t.skipList(depth)
	case thriftMap:
		return t.skipMap(depth)
	default:
		return errThrift
	}
}

func (t *thrift) skipList(depth int) error {
	head, err := t.byte()
	if err != nil {
		return err
	}
	n := uint64(head >> 4)
	if n == 15 {
		if n, err = t.uvarint(); err != nil {
			return err
		}
	}
	if n > uint64(len(t.rest)) { // each element takes at least a byte
		return errThrift
	}
	for range n {
		if err := t.skipElement(head&0xf, depth-1); err != nil {
			return err
		}
	}
	return nil
}

// list calls read for each element of a list, whose element type must be kind.
func (t *thrift) list(kind byte, read func() error) error {
	head, err := t.byte()
	if err != nil {
		return err
	}
	n := uint64(head >> 4)
	if n == 15 {
		if n, err = t.uvarint(); err != nil {
			return err
		}
	}
	if of := head & 0xf; of != kind && (kind != thriftTrue || of != thriftFalse) || n > uint64(len(t.rest)) {
		return errThrift
	}
	for range n {
		if err := read(); err != nil {
			return err
		}
	}
	return nil
}

func (t *thrift) skipMap(depth int) error {
	n, err := t.uvarint()
	if err != nil || n == 0 {
		return err
	}
	kinds, err := t.byte()
	if err != nil || n > uint64(len(t.rest)/2) {
		return errThrift
	}
	for range n {
		if err := t.skipElement(kinds>>4, depth-1); err != nil {
			return err
		}
		if err := t.skipElement(kinds&0xf, depth-1); err != nil {
			return err
		}
	}
	return nil
}

// skipElement skips an element of a list or map, where a boolean takes a byte.
func (t *thrift) skipElement(kind byte, depth int) error {
	if kind == thriftTrue || kind == thriftFalse {
		kind = thriftByte
	}
	return t.skip(kind, depth)
}

func (t *thrift) byte() (byte, error) {
	if len(t.rest) == 0 {
		return 0, errThrift
	}
	b := t.rest[0]
	t.rest = t.rest[1:]
	return b, nil
}

func (t *thrift) uvarint() (uint64, error) {
	v, n := binary.Uvarint(t.rest)
	if n <= 0 {
		return 0, errThrift
	}
	t.rest = t.rest[n:]
	return v, nil
}

func (t *thrift) varint() (int64, error) {
	v, n := binary.Varint(t.rest)
	if n <= 0 {
		return 0, errThrift
	}
	t.rest = t.rest[n:]
	return v, nil
}

func (t *thrift) skipBytes(n uint64) error {
	if n > uint64(len(t.rest)) {
		return errThrift
	}
	t.rest = t.rest[n:]
	return nil
}
