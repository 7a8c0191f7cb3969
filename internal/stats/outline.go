package stats

import (
	"unsafe"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/theta"
)

// Outline describes some rows by the counts and the sample of a Part, without its sketches of distinct values. It takes little
// memory, so that there may be one for each day of a table. It is not safe for concurrent use.
type Outline struct {
	columns []*Column // their sketches are empty
	sample  []arrow.RecordBatch
}

// Outline returns an outline of the part's rows, which the caller releases. It shares the sample.
func (p *Part) Outline() *Outline {
	o := &Outline{columns: make([]*Column, len(p.Columns)), sample: append([]arrow.RecordBatch{}, p.sample...)}
	for i, c := range p.Columns {
		o.columns[i] = c.withoutSketches()
	}
	for _, b := range o.sample {
		b.Retain()
	}
	return o
}

// Merge adds the rows of an outline of the same columns, whose sample moves to o.
func (o *Outline) Merge(other *Outline) {
	for i, c := range other.columns {
		o.columns[i].Merge(c)
	}
	o.sample = append(o.sample, other.sample...)
	other.sample = nil
}

// Rows returns the number of rows.
func (o *Outline) Rows() int64 {
	if len(o.columns) == 0 {
		return 0
	}
	return o.columns[0].Rows
}

// Series returns the number of profiles of the column with an index.
func (o *Outline) Series(column int) int {
	n := 0
	for c := o.columns[column]; c != nil; c = c.Elements {
		n++
		if c.Lengths != nil {
			n++
		}
		if c.Norms != nil {
			n++
		}
	}
	return n
}

// Memory returns the number of bytes that the outline takes, apart from its sample and from the longest and shortest texts.
func (o *Outline) Memory() (bytes int64) {
	for _, c := range o.columns {
		bytes += int64(unsafe.Sizeof(*c))
		for range c.series() {
			bytes += int64(unsafe.Sizeof(Floats{}))
		}
	}
	return bytes
}

// Release releases the sample. A nil outline has none.
func (o *Outline) Release() {
	if o == nil {
		return
	}
	batch.ReleaseAll(o.sample...)
	o.sample = nil
}

// withoutSketches returns a copy of a column whose sketches are empty.
func (c *Column) withoutSketches() *Column {
	out := *c
	switch s := c.Values.(type) {
	case *Integers:
		out.Values = s.withoutSketch()
	case *Floats:
		out.Values = s.withoutSketch()
	case *Bytes:
		copied := *s
		copied.Distinct = theta.Sketch{}
		out.Values = &copied
	}
	if c.Lengths != nil {
		out.Lengths, out.Elements = c.Lengths.withoutSketch(), c.Elements.withoutSketches()
	}
	if c.Norms != nil {
		out.Norms = c.Norms.withoutSketch()
	}
	return &out
}

func (s *Integers) withoutSketch() *Integers {
	out := *s
	out.Distinct = theta.Sketch{}
	return &out
}

func (s *Floats) withoutSketch() *Floats {
	out := *s
	out.Distinct = theta.Sketch{}
	return &out
}
