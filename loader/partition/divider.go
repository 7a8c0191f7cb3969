package partition

import (
	"slices"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/catalog"
)

// By derives one partition value of a row from one column.
type By struct {
	Column    int // its position in the schema
	Transform catalog.Transform
}

// Divider assigns rows to partitions. It is not safe for concurrent use.
type Divider struct {
	fields []By
	coders []*coder       // one for each field
	joins  []combinations // joins[i] numbers the distinct values of fields 0 to i+1
	codes  []int32        // scratch
}

// combinations numbers combinations of the values of the first fields. It does so for pairs: the
// number of a combination of all fields but the last, and the code of the last field's value.
type combinations struct {
	numbers map[[2]int32]int32
	pairs   [][2]int32 // by number
}

// combinationBytes is an upper bound of the memory of a combination.
const combinationBytes = 64

// New makes a Divider for batches of a schema. It fails with Invalid if a transform cannot be
// applied to its column.
func New(schema *arrow.Schema, fields []By) (*Divider, error) {
	d := &Divider{fields: fields}
	for i, f := range fields {
		if f.Column < 0 || f.Column >= schema.NumFields() {
			return nil, fault.New(fault.Internal, "column %d of %d to partition by", f.Column, schema.NumFields())
		}
		c, err := newCoder(schema.Field(f.Column), f.Transform)
		if err != nil {
			return nil, err
		}
		d.coders = append(d.coders, c)
		if i > 0 {
			d.joins = append(d.joins, combinations{numbers: map[[2]int32]int32{}})
		}
	}
	return d, nil
}

// Len returns the number of partitions found so far. Without partition fields it is 1.
func (d *Divider) Len() int {
	switch len(d.fields) {
	case 0:
		return 1
	case 1:
		return d.coders[0].len()
	default:
		return len(d.joins[len(d.joins)-1].pairs)
	}
}

// Bytes returns the approximate memory of everything found so far.
func (d *Divider) Bytes() int64 {
	bytes := int64(0)
	for _, c := range d.coders {
		bytes += c.bytes
	}
	for _, j := range d.joins {
		bytes += int64(len(j.pairs) * combinationBytes)
	}
	return bytes
}

// Assign writes to dst the number of each row's partition, which is below Len. It fails with
// Internal if the type of a column is not the type in the schema.
func (d *Divider) Assign(dst []int32, columns []arrow.Array) error {
	if len(d.fields) == 0 {
		clear(dst)
		return nil
	}
	if err := d.coders[0].code(dst, columns[d.fields[0].Column]); err != nil {
		return err
	}
	for i := range d.joins {
		d.codes = append(d.codes[:0], dst...)
		if err := d.coders[i+1].code(d.codes, columns[d.fields[i+1].Column]); err != nil {
			return err
		}
		d.joins[i].number(dst, d.codes)
	}
	return nil
}

// number extends combinations by one field: it replaces the number of each row's combination by the
// number of the combination that includes the given code of the further field.
func (c *combinations) number(numbers, codes []int32) {
	last, is := [2]int32{-1, -1}, int32(-1)
	for row, number := range numbers {
		if pair := [2]int32{number, codes[row]}; pair != last {
			found, ok := c.numbers[pair]
			if !ok {
				found = int32(len(c.pairs))
				c.numbers[pair] = found
				c.pairs = append(c.pairs, pair)
			}
			last, is = pair, found
		}
		numbers[row] = is
	}
}

// codesOf returns the code of each field of a partition.
func (d *Divider) codesOf(number int32) []int32 {
	codes := make([]int32, len(d.fields))
	for i, join := range slices.Backward(d.joins) {
		pair := join.pairs[number]
		codes[i+1], number = pair[1], pair[0]
	}
	if len(codes) > 0 {
		codes[0] = number
	}
	return codes
}

// Values returns the values of a partition, one for each field: see catalog.File.
func (d *Divider) Values(number int) []any {
	values := make([]any, len(d.fields))
	for i, code := range d.codesOf(int32(number)) {
		values[i] = d.coders[i].value(code)
	}
	return values
}

// Compare compares two partitions by their values, field by field. Null is first.
func (d *Divider) Compare(a, b int) int {
	other := d.codesOf(int32(b))
	for i, code := range d.codesOf(int32(a)) {
		if order := d.coders[i].compare(code, other[i]); order != 0 {
			return order
		}
	}
	return 0
}
