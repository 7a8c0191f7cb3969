package main

import (
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	arrowmemory "github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/iceberg-go"
)

func arrowMemory() arrowmemory.Allocator { return arrowmemory.DefaultAllocator }

// kind is the type of a column.
type kind int

const (
	longs kind = iota
	doubles
	texts
	lists // of longs
)

// drawn is a column whose values are a function of its position, the key and the row.
type drawn struct {
	name   string
	kind   kind
	length int // of strings in bytes, of lists in elements
}

// several returns columns of one kind.
func several(prefix string, n int, k kind, length int) []drawn {
	var out []drawn
	for i := range n {
		out = append(out, drawn{fmt.Sprintf("%s%d", prefix, i), k, length})
	}
	return out
}

func (c drawn) iceberg(element int) iceberg.Type {
	switch c.kind {
	case doubles:
		return iceberg.PrimitiveTypes.Float64
	case texts:
		return iceberg.PrimitiveTypes.String
	case lists:
		return &iceberg.ListType{ElementID: element, Element: iceberg.PrimitiveTypes.Int64}
	case longs:
	}
	return iceberg.PrimitiveTypes.Int64
}

// width returns about how many bytes a value takes in Arrow.
func (c drawn) width() int {
	switch c.kind {
	case texts:
		return 4 + c.length
	case lists:
		return 4 + 8*c.length
	case longs, doubles:
	}
	return 8
}

// maxRows limits the rows that are generated at a time to about 64 MiB.
func (s shape) maxRows() int {
	width := 8
	for _, c := range s.columns {
		width += c.width()
	}
	return max(s.each, int(64*mebi)/width)
}

// spread is SplitMix64, a bijection: it maps distinct numbers to distinct numbers of 64 bits.
func spread(n uint64) uint64 {
	n = (n + 1) * 0x9E3779B97F4A7C15
	n = (n ^ (n >> 30)) * 0xBF58476D1CE4E5B9
	n = (n ^ (n >> 27)) * 0x94D049BB133111EB
	return n ^ (n >> 31)
}

// stock are the bytes that strings and lists are slices of.
type stock struct {
	letters []byte
	numbers []int64
}

func newStock(longest int) stock {
	s := stock{letters: make([]byte, longest+1<<16), numbers: make([]int64, longest+1<<14)}
	for i := range s.letters {
		s.letters[i] = 'a' + byte(spread(uint64(i))%26)
	}
	for i := range s.numbers {
		s.numbers[i] = int64(spread(uint64(i)) % 1_000_000)
	}
	return s
}

// draw generates the rows of some requests. One value in 97 is null, except in keys.
func (s shape) draw(schema *arrow.Schema, requests []int64) arrow.RecordBatch {
	longest := 0
	for _, c := range s.columns {
		longest = max(longest, c.length)
	}
	from := newStock(longest)
	b := array.NewRecordBuilder(arrowMemory(), schema)
	defer b.Release()
	for _, key := range requests {
		for row := range s.each {
			b.Field(0).(*array.Int64Builder).Append(key)
			for i, c := range s.columns {
				c.append(b.Field(i+1), from, spread(uint64(key)^spread(uint64(row)<<16|uint64(i))))
			}
		}
	}
	return b.NewRecordBatch()
}

// append appends the value that a random number maps to.
func (c drawn) append(to array.Builder, from stock, random uint64) {
	if random%97 == 0 {
		to.AppendNull()
		return
	}
	switch to := to.(type) {
	case *array.Int64Builder:
		to.Append(int64(random >> 40))
	case *array.Float64Builder:
		to.Append(float64(random>>40) / 8)
	case *array.StringBuilder:
		at := int(random>>8) % (len(from.letters) - c.length)
		to.BinaryBuilder.Append(from.letters[at : at+c.length])
	case *array.ListBuilder:
		at := int(random>>8) % (len(from.numbers) - c.length)
		to.Append(true)
		to.ValueBuilder().(*array.Int64Builder).AppendValues(from.numbers[at:at+c.length], nil)
	}
}
