package stats

import (
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/penstock/penstock/internal/batch"
)

// Column describes the values of a column in some rows. Series that the type does not have are nil. It is not safe for
// concurrent use.
type Column struct {
	Type  arrow.DataType
	Rows  int64
	Nulls int64
	// Values has the values of a column of numbers, times, texts or bytes.
	Values Series
	// Lengths has the numbers of elements of lists, Elements the elements, and Norms the Euclidean norms of
	// lists of floats. Elements that are null count as 0 in norms.
	Lengths  *Integers
	Elements *Column
	Norms    *Floats
}

// Describes reports whether a Column of a type has more than the numbers of rows and nulls.
func Describes(t arrow.DataType) bool {
	c := NewColumn(t)
	return c.Values != nil || c.Lengths != nil
}

// NotDescribed returns the name of the part of a column of which only rows and nulls are counted: the column itself, or elements of its
// lists, such as items.elements. It returns "" if there is no such part.
func NotDescribed(column string, t arrow.DataType) string {
	c := NewColumn(t)
	for c.Elements != nil {
		column, c = column+".elements", c.Elements
	}
	if c.Values != nil {
		return ""
	}
	return column
}

// NewColumn returns a Column without rows. Of types that are not supported, such as structs and maps, it counts only rows and nulls.
func NewColumn(t arrow.DataType) *Column {
	c := &Column{Type: t}
	if list, ok := t.(arrow.ListLikeType); ok && t.ID() != arrow.MAP {
		c.Lengths, c.Elements = &Integers{width: intBytes}, NewColumn(list.Elem())
		if _, floats := c.Elements.Values.(*Floats); floats {
			c.Norms = &Floats{}
		}
		return c
	}
	c.Values = newSeries(batch.StorageOf(t))
	return c
}

// Add adds the values of an array of the column's type, which it borrows.
func (c *Column) Add(values arrow.Array) {
	c.Rows += int64(values.Len())
	c.Nulls += int64(values.NullN())
	if e, ok := values.(array.ExtensionArray); ok {
		values = e.Storage()
	}
	switch lists, isList := values.(array.ListLike); {
	case c.Lengths != nil && isList:
		c.addLists(lists)
	case c.Values != nil:
		for from, to := range validRuns(values) {
			c.Values.add(values, from, to)
		}
	}
}

func (c *Column) addLists(lists array.ListLike) {
	elements := lists.ListValues()
	for from, to := range validRuns(lists) {
		for i := from; i < to; i++ {
			start, end := lists.ValueOffsets(i)
			c.Lengths.addOne(end - start)
		}
		start, _ := lists.ValueOffsets(from)
		_, end := lists.ValueOffsets(to - 1)
		run := array.NewSlice(elements, start, end)
		c.Elements.Add(run)
		run.Release()
		if c.Norms == nil {
			continue
		}
		for i := from; i < to; i++ {
			start, end := lists.ValueOffsets(i)
			c.Norms.addOne(norm(elements, int(start), int(end)))
		}
	}
}

// Merge adds the rows of another Column of the same type, which follow in the order of rows.
func (c *Column) Merge(other *Column) {
	c.Rows += other.Rows
	c.Nulls += other.Nulls
	if c.Values != nil {
		c.Values.merge(other.Values)
	}
	if c.Lengths != nil {
		c.Lengths.merge(other.Lengths)
		c.Elements.Merge(other.Elements)
	}
	if c.Norms != nil {
		c.Norms.merge(other.Norms)
	}
}

// Memory returns the maximum number of bytes that the column takes, apart from the longest and shortest texts.
func (c *Column) Memory() int64 {
	n := int64(0)
	for range c.series() {
		n += seriesMemory
	}
	return n
}

// series returns the series of the column and of its elements, with their names.
func (c *Column) series() func(func(string, Series) bool) {
	return func(yield func(string, Series) bool) {
		switch {
		case c.Values != nil:
			yield("", c.Values)
		case c.Lengths != nil:
			if !yield("lengths", c.Lengths) || c.Norms != nil && !yield("norms", c.Norms) {
				return
			}
			for name, s := range c.Elements.series() {
				if !yield(join("elements", name), s) {
					return
				}
			}
		}
	}
}

// join returns the name of a series inside another one.
func join(outer, inner string) string {
	if inner == "" {
		return outer
	}
	return outer + "." + inner
}

// validRuns yields the first position of each run of values that are not null, and the position after it.
func validRuns(values arrow.Array) func(func(from, to int) bool) {
	return func(yield func(from, to int) bool) {
		n := values.Len()
		if values.NullN() == 0 {
			if n > 0 {
				yield(0, n)
			}
			return
		}
		for i := 0; i < n; i++ {
			if values.IsNull(i) {
				continue
			}
			from := i
			for i < n && values.IsValid(i) {
				i++
			}
			if !yield(from, i) {
				return
			}
		}
	}
}
