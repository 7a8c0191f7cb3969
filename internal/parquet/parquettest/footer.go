package parquettest

import (
	"bytes"
	"encoding/binary"
	"fmt"
)

const trailerBytes = 8 // the length of the footer and the magic bytes

// EditFooter returns a copy of a file in which from is replaced by to wherever it occurs in the
// footer. The two may have different lengths.
func EditFooter(file []byte, from, to string) ([]byte, error) {
	at := len(file) - trailerBytes - int(binary.LittleEndian.Uint32(file[len(file)-trailerBytes:]))
	footer := file[at : len(file)-trailerBytes]
	if !bytes.Contains(footer, []byte(from)) {
		return nil, fmt.Errorf("the footer does not have %q", from)
	}
	footer = bytes.ReplaceAll(footer, []byte(from), []byte(to))
	return withFooter(file[:at], footer), nil
}

// WithUnknownFields returns a copy of a file that has a field of a later version of the format at
// the end of every struct of its footer.
func WithUnknownFields(file []byte) []byte {
	at := len(file) - trailerBytes - int(binary.LittleEndian.Uint32(file[len(file)-trailerBytes:]))
	e := extender{in: file[at : len(file)-trailerBytes]}
	e.structure()
	return withFooter(file[:at], e.out)
}

func withFooter(pages, footer []byte) []byte {
	out := append(bytes.Clone(pages), footer...)
	return append(binary.LittleEndian.AppendUint32(out, uint32(len(footer))), "PAR1"...)
}

// extender copies structs in Thrift's compact protocol and adds a field to each.
type extender struct{ in, out []byte }

func (e *extender) copy(n int) {
	e.out, e.in = append(e.out, e.in[:n]...), e.in[n:]
}

func (e *extender) varint() uint64 {
	v, n := binary.Uvarint(e.in)
	e.copy(n)
	return v
}

func (e *extender) structure() {
	for e.in[0] != 0 {
		head := e.in[0]
		e.copy(1)
		if head>>4 == 0 {
			e.varint()
		}
		e.value(head & 0xf)
	}
	e.out = append(e.out, 0x0c)                         // a struct
	e.out = binary.AppendVarint(e.out, 900)             // with an unused id
	e.out = append(e.out, 0x18, 3, 'n', 'e', 'w', 0x00) // of a text
	e.copy(1)
}

func (e *extender) value(kind byte) {
	switch kind {
	case 3: // byte
		e.copy(1)
	case 4, 5, 6: // numbers
		e.varint()
	case 7: // double
		e.copy(8)
	case 8: // text
		e.copy(int(e.varint()))
	case 9: // list
		head := e.in[0]
		e.copy(1)
		n := uint64(head >> 4)
		if n == 15 {
			n = e.varint()
		}
		for range n {
			if kind := head & 0xf; kind <= 2 { // truth values take a byte each
				e.copy(1)
			} else {
				e.value(kind)
			}
		}
	case 12:
		e.structure()
	}
}
