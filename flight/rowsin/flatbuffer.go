package rowsin

import (
	"encoding/binary"

	flatbuffers "github.com/google/flatbuffers/go"

	"github.com/penstock/penstock/internal/fault"
)

// A header of an Arrow message is a flatbuffer. The flatbuffers library follows offsets without
// checking them, and the Arrow library allocates lists of whatever length a header claims. This
// file therefore reads the headers of clients, checks every offset, and writes new headers. The
// Arrow library decodes only the headers that this package wrote.

// Limits of a header.
const (
	maxFlatDepth = 72 // nesting of tables: the depth of nested fields, and the tables around them
	flatPointer  = 4  // bytes of an offset
	sharedTexts  = 4  // all texts together may have this many times the bytes of a header, since a header may refer to one stored text several times
)

// flatReader reads a flatbuffer that a client sent. After the first fault, its methods return zero
// values.
type flatReader struct {
	bytes  []byte
	tables int   // how many tables may still be read; without a limit, a small header that refers to the same tables many times could take forever
	texts  int64 // how many bytes of texts may still be read
	broken bool
}

func newFlatReader(header []byte) *flatReader {
	return &flatReader{bytes: header, tables: len(header) / flatPointer, texts: sharedTexts * int64(len(header))}
}

// err returns an error if the reader has found a fault.
func (r *flatReader) err() error {
	if !r.broken {
		return nil
	}
	return fault.New(fault.Invalid, "the header of a message is damaged").WithRemedy("write the rows with an Arrow library")
}

// has reports whether a range of bytes is within the flatbuffer and no fault was found earlier.
func (r *flatReader) has(at, bytes int64) bool {
	if at < 0 || bytes < 0 || at > int64(len(r.bytes))-bytes {
		r.broken = true
	}
	return !r.broken
}

// number reads an unsigned number of 1, 2, 4 or 8 bytes.
func (r *flatReader) number(at int64, bytes int) uint64 {
	if !r.has(at, int64(bytes)) {
		return 0
	}
	var wide [8]byte
	copy(wide[:], r.bytes[at:at+int64(bytes)])
	return binary.LittleEndian.Uint64(wide[:])
}

// follow reads the offset at a position, and returns the position that the offset refers to.
func (r *flatReader) follow(at int64) int64 {
	to := at + int64(r.number(at, flatPointer)) //nolint:gosec // 32 bits
	r.has(to, flatPointer)
	return to
}

// flatTable is a table of a flatbuffer. Its vtable lists the positions of the table's fields.
type flatTable struct {
	*flatReader
	at     int64
	names  int64 // the position of the vtable
	length int64 // the bytes of the vtable
}

// root returns the outermost table.
func (r *flatReader) root() flatTable { return r.table(r.follow(0)) }

// table returns the table at a position.
func (r *flatReader) table(at int64) flatTable {
	if r.tables--; r.tables < 0 {
		r.broken = true
	}
	names := at - int64(int32(r.number(at, flatPointer))) //nolint:gosec // two's complement
	length := int64(r.number(names, 2))                   //nolint:gosec // 16 bits
	if length < 4 || length%2 != 0 || !r.has(names, length) {
		r.broken = true
	}
	return flatTable{flatReader: r, at: at, names: names, length: length}
}

// field returns the position of a field, or 0 if the table does not have it.
func (t flatTable) field(slot, bytes int) int64 {
	entry := int64(4 + 2*slot)
	if t.broken || entry+2 > t.length {
		return 0
	}
	offset := int64(t.number(t.names+entry, 2)) //nolint:gosec // 16 bits
	if offset == 0 || !t.has(t.at+offset, int64(bytes)) {
		return 0
	}
	return t.at + offset
}

// value returns the number in a field, or 0 if the table does not have it.
func (t flatTable) value(slot, bytes int) uint64 {
	if at := t.field(slot, bytes); at > 0 {
		return t.number(at, bytes)
	}
	return 0
}

// inner returns the table that a field refers to, and whether the field has a table.
func (t flatTable) inner(slot int) (flatTable, bool) {
	at := t.field(slot, flatPointer)
	if at == 0 {
		return flatTable{}, false
	}
	of := t.table(t.follow(at))
	return of, !t.broken
}

// list returns the position of the first entry of the list in a field, and the number of entries.
func (t flatTable) list(slot, bytes int) (first int64, n int) {
	at := t.field(slot, flatPointer)
	if at == 0 {
		return 0, 0
	}
	at = t.follow(at)
	claimed := int64(t.number(at, flatPointer)) //nolint:gosec // 32 bits
	if !t.has(at+flatPointer, claimed*int64(bytes)) {
		return 0, 0
	}
	return at + flatPointer, int(claimed)
}

// text returns the bytes of the text in a field.
func (t flatTable) text(slot int) []byte {
	first, n := t.list(slot, 1)
	if t.texts -= int64(n); t.texts < 0 {
		t.broken = true
	}
	if t.broken {
		return nil
	}
	return t.bytes[first : first+int64(n)]
}

// flatKind says how a field of a table is read and written.
type flatKind int

// Kinds of fields.
const (
	flatDropped flatKind = iota // the field is not copied to the new header
	flatNumber                  // a number of 1, 2, 4 or 8 bytes
	flatText
	flatInner  // a table
	flatTables // a list of tables
	flatUnion  // a table whose type is in the field before it
)

// flatField describes a field of tables.
type flatField struct {
	kind  flatKind
	bytes int         // the size of a number
	of    *flatShape  // the shape of a table, or of each table of a list
	types []flatShape // the shapes of a union's tables, by type; a type without a known shape is a fault
}

// flatShape describes the fields of tables, by slot.
type flatShape struct {
	fields []flatField
	known  bool
}

// write writes a copy of a table with only the fields that the shape describes, and returns the
// offset of the copy.
func (t flatTable) write(b *flatbuffers.Builder, shape *flatShape, depth int) flatbuffers.UOffsetT {
	if depth > maxFlatDepth {
		t.broken = true
	}
	inner := make([]flatbuffers.UOffsetT, len(shape.fields))
	for slot, f := range shape.fields {
		if t.broken {
			return 0
		}
		inner[slot] = t.writeInner(b, slot, f, depth)
	}
	b.StartObject(len(shape.fields))
	for slot, f := range shape.fields {
		switch {
		case f.kind == flatNumber:
			t.writeNumber(b, slot, f.bytes)
		case inner[slot] > 0:
			b.PrependUOffsetT(inner[slot])
			b.Slot(slot)
		}
	}
	return b.EndObject()
}

// writeInner copies the text, table or list that a field refers to. It returns the offset of the
// copy, or 0 if the field refers to nothing.
func (t flatTable) writeInner(b *flatbuffers.Builder, slot int, f flatField, depth int) flatbuffers.UOffsetT {
	switch f.kind {
	case flatDropped, flatNumber:
	case flatText:
		if t.field(slot, flatPointer) > 0 {
			return b.CreateByteString(t.text(slot))
		}
	case flatInner:
		if of, ok := t.inner(slot); ok {
			return of.write(b, f.of, depth+1)
		}
	case flatTables:
		return t.writeTables(b, slot, f.of, depth)
	case flatUnion:
		of, ok := t.inner(slot)
		kind := t.value(slot-1, 1)
		if !ok || kind >= uint64(len(f.types)) || !f.types[kind].known {
			t.broken = true
			return 0
		}
		return of.write(b, &f.types[kind], depth+1)
	}
	return 0
}

// writeTables copies a list of tables, and returns the offset of the copy.
func (t flatTable) writeTables(b *flatbuffers.Builder, slot int, of *flatShape, depth int) flatbuffers.UOffsetT {
	first, n := t.list(slot, flatPointer)
	if n > t.tables {
		t.broken = true
	}
	if t.broken || first == 0 {
		return 0
	}
	all := make([]flatbuffers.UOffsetT, n)
	for i := range all {
		one := t.table(t.follow(first + int64(i)*flatPointer))
		if t.broken {
			return 0
		}
		all[i] = one.write(b, of, depth+1)
	}
	if t.broken {
		return 0
	}
	return b.CreateVectorOfTables(all)
}

// writeNumber copies the number in a field, if the table has the field.
func (t flatTable) writeNumber(b *flatbuffers.Builder, slot, bytes int) {
	at := t.field(slot, bytes)
	if at == 0 {
		return
	}
	n := t.number(at, bytes)
	switch bytes {
	case 1:
		b.PrependByte(byte(n)) //nolint:gosec // one byte was read
	case 2:
		b.PrependUint16(uint16(n)) //nolint:gosec // two were read
	case 4:
		b.PrependUint32(uint32(n)) //nolint:gosec // four were read
	default:
		b.PrependUint64(n)
	}
	b.Slot(slot)
}
