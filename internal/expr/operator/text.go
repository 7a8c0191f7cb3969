package operator

import (
	"fmt"
	"math"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/penstock/penstock/internal/fault"
)

// concatenation binds || to two texts.
func concatenation(left, right arrow.DataType) (Bound, error) {
	if left.ID() != arrow.STRING || right.ID() != arrow.STRING {
		return Bound{}, fmt.Errorf("%s || %s is not defined: it joins two strings, and conditions are joined by OR", Name(left), Name(right))
	}
	run := func(operands []arrow.Array, rows Rows) (arrow.Array, error) {
		a, b := operands[0].(*array.String), operands[1].(*array.String)
		left, right := textsOf(a, rows), textsOf(b, rows)
		validity := rows.validity(a, b)
		total := 0
		for row := range rows.Count {
			if valid(validity, row) {
				total += len(left(row)) + len(right(row))
			}
		}
		if total > math.MaxInt32 {
			if validity != nil {
				validity.Release()
			}
			return nil, fault.New(fault.Exhausted, "the texts that || makes for a batch have more than 2 GiB").
				WithRemedy("ask for a smaller batch_rows")
		}
		offsets, texts := rows.buffer((rows.Count+1)*arrow.Int32SizeBytes), rows.buffer(total)
		ends, out := arrow.GetData[int32](offsets.Bytes()), texts.Bytes()[:0]
		ends[0] = 0
		for row := range rows.Count {
			if valid(validity, row) {
				out = append(append(out, left(row)...), right(row)...)
			}
			ends[row+1] = int32(len(out))
		}
		return rows.Make(arrow.BinaryTypes.String, validity, offsets, texts), nil
	}
	size := func(sizes []int64, rows int) int64 {
		offsets := bufferSize(int64((rows + 1) * arrow.Int32SizeBytes))
		return offsets + bufferSize(sizes[0]+sizes[1]) + bufferSize(int64(rows+7)/8)
	}
	return Bound{Type: arrow.BinaryTypes.String, Run: run, Size: size}, nil
}

// textsOf returns a function that returns the text of a row.
func textsOf(a *array.String, rows Rows) func(row int) string {
	if a.Len() != rows.Count {
		literal := a.Value(0)
		return func(int) string { return literal }
	}
	return a.Value
}
