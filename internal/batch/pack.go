package batch

import (
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/penstock/penstock/internal/fault"
)

// PackedSize returns the number of bytes that Pack allocates for the same columns.
func (g *Gatherer) PackedSize(columns [][]Segment) int64 {
	return g.allocatedSize(int64(g.packedRows(columns)) * int64(len(columns)) * int64(arrow.Float32SizeBytes))
}

// packedRows returns the number of rows, which is the same for all columns.
func (g *Gatherer) packedRows(columns [][]Segment) int {
	rows := 0
	for _, s := range columns[0] {
		rows += g.selection(s).rows
	}
	return rows
}

// Pack returns several numeric columns as one column of type dt, a fixed-size list of float32: each
// row has one value of each column, in their order. Numbers become the nearest float32, and
// booleans 0 or 1. A null becomes fill. Pack returns Invalid for a null if fill is nil, and for a
// finite number that float32 cannot represent as a finite number. It returns Internal for a column
// of a type that Cast does not convert to float32. names are the names of the columns, for errors.
func (g *Gatherer) Pack(dt arrow.DataType, names []string, columns [][]Segment, fill *float32) (arrow.Array, error) {
	width, rows := len(columns), g.packedRows(columns)
	values := g.buffer(rows * width * arrow.Float32SizeBytes)
	out := view[float32](values.Bytes())
	for k, segments := range columns {
		p := packing{name: names[k], out: out[k:], width: width, fill: fill}
		for _, s := range segments {
			sel := g.selection(s)
			if s.Values == nil || sel.rows > 0 && (sel.low < 0 || sel.high >= s.Values.Len()) {
				return nil, fault.New(fault.Internal, "rows to pack are outside of column %s", names[k])
			}
			if err := p.segment(s.Values, sel); err != nil {
				return nil, err
			}
		}
	}
	items := array.NewData(arrow.PrimitiveTypes.Float32, rows*width, []*memory.Buffer{nil, values}, nil, 0, 0)
	defer items.Release()
	lists := array.NewData(dt, rows, []*memory.Buffer{nil}, []arrow.ArrayData{items}, 0, 0)
	defer lists.Release()
	return array.MakeFromData(lists), nil
}

// packing writes one column to every width-th element of out, starting at the first element.
type packing struct {
	name  string
	out   []float32
	width int
	fill  *float32
}

// segment packs the selected rows of an array and advances out past them.
func (p *packing) segment(a arrow.Array, sel *selection) error {
	var row int
	switch a := a.(type) {
	case *array.Int32:
		row = packNumbers(p, a, a.Int32Values(), sel)
	case *array.Int64:
		row = packNumbers(p, a, a.Int64Values(), sel)
	case *array.Float32:
		row = packNumbers(p, a, a.Float32Values(), sel)
	case *array.Float64:
		row = packNumbers(p, a, a.Float64Values(), sel)
	case *array.Boolean:
		row = packEach(p, a, sel, func(i int) (float32, bool) {
			if a.Value(i) {
				return 1, true
			}
			return 0, true
		})
	case *array.Decimal128:
		scale := int(a.DataType().(*arrow.Decimal128Type).Scale)
		row = packEach(p, a, sel, func(i int) (float32, bool) { return singleOf(a.Value(i), scale) })
	default:
		return fault.New(fault.Internal, "column %s of type %s cannot be packed", p.name, a.DataType())
	}
	switch {
	case row < 0:
		return nil
	case a.IsNull(row):
		return fault.New(fault.Invalid, "column %s has a null, and no fill is given for it", p.name).
			WithRemedy("give the dense column a fill, {columns: […], fill: 0}, or filter such rows out")
	}
	return fault.New(fault.Invalid, "column %s has the value %s, which is beyond float32", p.name, a.ValueStr(row)).
		WithRemedy("leave the column out of the dense one, or filter such rows out")
}

// packNumbers packs the selected rows of an array with the given values. It returns
// the first row that cannot be packed, or -1.
func packNumbers[T int32 | int64 | float32 | float64](p *packing, a arrow.Array, values []T, sel *selection) int {
	if a.NullN() != 0 {
		return packEach(p, a, sel, func(i int) (float32, bool) { return float32(values[i]), fits(values[i]) })
	}
	at := 0
	for _, i := range sel.indices {
		v := float32(values[i])
		if infinite(v) && !fits(values[i]) {
			return int(i)
		}
		p.out[at] = v
		at += p.width
	}
	for _, s := range sel.spans {
		for i, of := range values[s.from : s.from+s.rows] {
			v := float32(of)
			if infinite(v) && !fits(of) {
				return s.from + i
			}
			p.out[at] = v
			at += p.width
		}
	}
	p.out = p.out[min(at, len(p.out)):]
	return -1
}

// fits reports whether a number, if finite, remains finite as a float32.
func fits[T int32 | int64 | float32 | float64](v T) bool {
	return infinite(float64(v)) || !infinite(float32(v))
}

// packEach packs the selected rows of an array. The function each returns the value of a row that
// is not null. It returns the first row that cannot be packed, or -1.
func packEach(p *packing, a arrow.Array, sel *selection, each func(i int) (float32, bool)) int {
	at := 0
	one := func(i int) bool {
		v, ok := float32(0), false
		switch {
		case a.IsValid(i):
			v, ok = each(i)
		case p.fill != nil:
			v, ok = *p.fill, true
		}
		if ok {
			p.out[at] = v
			at += p.width
		}
		return ok
	}
	for _, i := range sel.indices {
		if !one(int(i)) {
			return int(i)
		}
	}
	for _, s := range sel.spans {
		for i := range s.rows {
			if !one(s.from + i) {
				return s.from + i
			}
		}
	}
	p.out = p.out[min(at, len(p.out)):]
	return -1
}
