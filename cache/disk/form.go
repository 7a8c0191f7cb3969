package disk

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock/penstock/internal/fault"
)

// formKind determines how the buffers of an array are stored.
type formKind int

const (
	nullForm       formKind = iota // no buffers
	fixedForm                      // values of a fixed number of bits
	textForm                       // offsets and bytes
	listForm                       // offsets and one child
	fixedListForm                  // one child
	structForm                     // children
	dictionaryForm                 // indices, and a dictionary besides the array
)

// arrayForm describes how arrays of a type are stored. It is derived from a type in memory, never
// from a file.
type arrayForm struct {
	kind     formKind
	of       arrow.DataType
	bits     int64 // the width of a value, index or offset
	items    int64 // the number of items of a list of fixed size
	noNulls  bool  // the Arrow library requires that there are no nulls, as in keys and entries of maps
	children []*arrayForm
	values   *arrayForm // the form of the dictionary
}

// Widths in bits.
const (
	byteBits   = 8
	indexBits  = 32
	offsetBits = 32
	wideBits   = 64
	maxWidth   = 8 << 20 // of a value
)

// formOf returns the form of a type. It fails for types that the package does not store.
func formOf(of arrow.DataType) (*arrayForm, error) {
	f := &arrayForm{of: of}
	var fields []arrow.Field
	switch of := of.(type) {
	case *arrow.NullType:
		f.kind = nullForm
	case *arrow.StringType, *arrow.BinaryType:
		f.kind, f.bits = textForm, offsetBits
	case *arrow.LargeStringType, *arrow.LargeBinaryType:
		f.kind, f.bits = textForm, wideBits
	case *arrow.ListType:
		f.kind, f.bits, fields = listForm, offsetBits, of.Fields()
	case *arrow.LargeListType:
		f.kind, f.bits, fields = listForm, wideBits, of.Fields()
	case *arrow.MapType:
		f.kind, f.bits, fields = listForm, offsetBits, of.Fields()
	case *arrow.FixedSizeListType:
		f.kind, f.items, fields = fixedListForm, int64(of.Len()), of.Fields()
	case *arrow.StructType:
		f.kind, fields = structForm, of.Fields()
	case *arrow.DictionaryType:
		return dictionaryOf(f, of)
	default:
		return fixedOf(f)
	}
	for _, field := range fields {
		child, err := formOf(field.Type)
		if err != nil {
			return nil, err
		}
		f.children = append(f.children, child)
	}
	if of.ID() == arrow.MAP {
		entries := f.children[0]
		entries.noNulls, entries.children[0].noNulls = true, true
	}
	return f, nil
}

func dictionaryOf(f *arrayForm, of *arrow.DictionaryType) (*arrayForm, error) {
	values, err := formOf(of.ValueType)
	if err != nil {
		return nil, err
	}
	if of.IndexType.ID() != arrow.INT32 || values.kind != textForm && values.kind != fixedForm {
		return nil, unsupported(of)
	}
	f.kind, f.bits, f.values = dictionaryForm, indexBits, values
	return f, nil
}

func fixedOf(f *arrayForm) (*arrayForm, error) {
	switch f.of.ID() {
	case arrow.BOOL, arrow.INT8, arrow.INT16, arrow.INT32, arrow.INT64, arrow.UINT8, arrow.UINT16, arrow.UINT32, arrow.UINT64,
		arrow.FLOAT16, arrow.FLOAT32, arrow.FLOAT64, arrow.DATE32, arrow.DATE64, arrow.TIME32, arrow.TIME64, arrow.TIMESTAMP,
		arrow.DURATION, arrow.DECIMAL32, arrow.DECIMAL64, arrow.DECIMAL128, arrow.DECIMAL256, arrow.FIXED_SIZE_BINARY:
	default:
		return nil, unsupported(f.of)
	}
	fixed, ok := f.of.(arrow.FixedWidthDataType)
	if !ok {
		return nil, unsupported(f.of)
	}
	f.kind, f.bits = fixedForm, int64(fixed.BitWidth())
	if f.bits > maxWidth {
		return nil, unsupported(f.of)
	}
	return f, nil
}

func unsupported(of arrow.DataType) error {
	return fault.New(fault.Invalid, "the disk tier does not store columns of type %s", of)
}

// typeText returns a text that is equal for types with the same arrays. It ignores the metadata of
// fields, since a reader gets arrays of the type that it requested.
func typeText(of arrow.DataType) string {
	nested, ok := of.(arrow.NestedType)
	if !ok {
		if d, ok := of.(*arrow.DictionaryType); ok {
			return fmt.Sprintf("dictionary<%s, %s, %t>", typeText(d.IndexType), typeText(d.ValueType), d.Ordered)
		}
		return of.Name() + strconv.Quote(of.String())
	}
	var out strings.Builder
	out.WriteString(of.Name())
	switch of := of.(type) {
	case *arrow.FixedSizeListType:
		fmt.Fprintf(&out, "[%d]", of.Len())
	case *arrow.MapType:
		fmt.Fprintf(&out, "[%t]", of.KeysSorted)
	}
	for _, field := range nested.Fields() {
		fmt.Fprintf(&out, "<%q %t %s>", field.Name, field.Nullable, typeText(field.Type))
	}
	return out.String()
}

// arrayNode is the shape of one array or of one of its children. The node and its form determine
// the lengths of all buffers.
type arrayNode struct {
	length int64
	nulls  int64
	extra  int64 // textForm: bytes of all values; dictionaryForm: the number of the dictionary
}

// maxLength is the largest number of values in an array.
const maxLength = 1<<31 - 1

// buffers returns the lengths of a node's buffers in bytes, without those of its children: the
// validity bitmap, and the one or two buffers of its form. -1 stands for a buffer that does not
// exist.
func (f *arrayForm) buffers(n arrayNode) (validity, first, second int64) {
	validity, first, second = -1, -1, -1
	if n.nulls > 0 && f.kind != nullForm {
		validity = bytesOf(n.length, 1)
	}
	switch f.kind {
	case fixedForm, dictionaryForm:
		first = bytesOf(n.length, f.bits)
	case textForm:
		first, second = bytesOf(n.length+1, f.bits), n.extra
	case listForm:
		first = bytesOf(n.length+1, f.bits)
	case nullForm, fixedListForm, structForm:
	}
	return validity, first, second
}

// bytesOf returns the size of n values in bytes.
func bytesOf(n, bits int64) int64 { return (n*bits + byteBits - 1) / byteBits }

// alignment is the alignment of buffers in bytes, both in files and in memory.
const alignment = 64

// padded rounds up a length to the alignment.
func padded(n int64) int64 { return (n + alignment - 1) &^ (alignment - 1) }
