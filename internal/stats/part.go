package stats

import (
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/penstock/penstock/internal/batch"
)

// numberBytes is the size of the number of a row in bytes.
const numberBytes = 8

// Part describes some rows of a table. It is not safe for concurrent use.
type Part struct {
	Columns []*Column
	// Sampled is the number of rows in the sample.
	Sampled int64
	// SampleBytes is the size of the sample of a part that was not merged: the sum of the results of Select.
	SampleBytes int64

	sampling Sampling
	sample   []arrow.RecordBatch
	numbers  [][]int64 // of the rows of each batch of the sample in their file; only of a part that was not merged
	kept     []int32   // the positions of the selected rows
	keptAs   []int64   // the numbers of the selected rows
	bytes    int64     // the size of the selected rows
}

// NewPart returns a Part without rows.
func NewPart(columns []arrow.Field, sampling Sampling) *Part {
	p := &Part{sampling: sampling, Columns: make([]*Column, len(columns))}
	for i, f := range columns {
		p.Columns[i] = NewColumn(f.Type)
	}
	return p
}

// Memory returns the maximum number of bytes that the part takes, apart from its sample.
func (p *Part) Memory() (bytes int64) {
	for _, c := range p.Columns {
		bytes += c.Memory()
	}
	return bytes
}

// Select selects the rows of a batch for the sample, given the number of each row in its file, and
// returns the memory in bytes that the next call of Add takes for them.
func (p *Part) Select(b arrow.RecordBatch, numbers []int64) (int64, error) {
	p.kept = p.sampling.Append(p.kept[:0], numbers)
	if len(p.kept) == 0 {
		return 0, nil
	}
	p.keptAs = make([]int64, len(p.kept))
	for i, at := range p.kept {
		p.keptAs[i] = numbers[at]
	}
	bytes := int64(numberBytes * len(p.kept))
	for _, c := range b.Columns() {
		size, err := new(batch.Gatherer).Size(c.DataType(), []batch.Segment{{Values: c, Indices: p.kept}})
		if err != nil {
			return 0, err
		}
		bytes += size
	}
	p.bytes = bytes
	return bytes, nil
}

// Add adds the rows of a batch, which has exactly the part's columns, after Select.
func (p *Part) Add(b arrow.RecordBatch, mem memory.Allocator) error {
	for i, c := range b.Columns() {
		p.Columns[i].Add(c)
	}
	return p.AddSample(b, mem)
}

// AddSample adds the selected rows of a batch to the sample, and leaves the counts and sketches as they are. It follows Select,
// and is for parts from ReadState.
func (p *Part) AddSample(b arrow.RecordBatch, mem memory.Allocator) error {
	if len(p.kept) == 0 {
		return nil
	}
	rows, err := batch.Filter(b, p.kept, mem)
	if err != nil {
		return err
	}
	p.sample, p.Sampled = append(p.sample, rows), p.Sampled+rows.NumRows()
	p.numbers, p.SampleBytes = append(p.numbers, p.keptAs), p.SampleBytes+p.bytes
	p.kept, p.keptAs = p.kept[:0], nil
	return nil
}

// Merge adds the rows of another Part with the same columns and level, which follow in the order of
// rows. Its sample moves to p.
func (p *Part) Merge(other *Part) {
	for i, c := range other.Columns {
		p.Columns[i].Merge(c)
	}
	p.sample, p.Sampled = append(p.sample, other.sample...), p.Sampled+other.Sampled
	p.numbers, other.numbers = nil, nil
	other.sample, other.Sampled = nil, 0
}

// Rows returns the number of rows.
func (p *Part) Rows() int64 {
	if len(p.Columns) == 0 {
		return 0
	}
	return p.Columns[0].Rows
}

// Release releases the sample. A nil part has none.
func (p *Part) Release() {
	if p == nil {
		return
	}
	batch.ReleaseAll(p.sample...)
	p.sample, p.numbers = nil, nil
}
