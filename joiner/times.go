package joiner

import (
	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock/penstock/internal/fault"
)

// times holds the times of some rows, in the unit of their column. The time of
// a row that null marks means nothing.
type times struct {
	values []int64
	null   []bool // nil if every row has a time
}

// timeType returns how to read a time column.
func timeType(f arrow.Field) (keyType, error) {
	t, ok := keyTypeOf(f.Type)
	if !ok || !t.integral() {
		return t, fault.New(fault.Invalid, "column %s of type %s cannot be a time", f.Name, f.Type).
			WithRemedy("name a column of dates, timestamps or integers")
	}
	return t, nil
}

// timeColumn reads the time column of batches. It is not for concurrent use.
type timeColumn struct {
	at      int
	field   arrow.Field
	encoder *encoder
	times   times // of the current batch
}

func newTimeColumn(schema *arrow.Schema, at int) (*timeColumn, error) {
	fields, err := fieldsAt(schema, []int{at})
	if err != nil {
		return nil, err
	}
	t, err := timeType(fields[0])
	if err != nil {
		return nil, err
	}
	return &timeColumn{at: at, field: fields[0], encoder: newEncoder([]keyType{t})}, nil
}

// load reads the times of an array. They are valid until the next call and
// while the array is.
func (c *timeColumn) load(a arrow.Array) {
	v := c.encoder.encode([]arrow.Array{a})
	c.times = times{values: v.ints, null: v.null}
}
