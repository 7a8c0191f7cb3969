package joinertest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/joiner"
)

// Null is Arrow's text for a null.
const Null = array.NullValueStr

// Checked returns an allocator that overwrites freed memory, and fails the test if some is
// not freed.
func Checked(t testing.TB) memory.Allocator {
	under := memory.NewCheckedAllocator(batch.Default())
	t.Cleanup(func() { under.AssertSize(t, 0) })
	return batch.NewPoison(under)
}

// Rows holds rows of values in Arrow's text form.
type Rows [][]string

// Table is a stream: rows, and their division into batches.
type Table struct {
	Fields []arrow.Field
	Rows   Rows
	Cuts   []int // rows of each batch; the rest is one more
	Name   string
	Coded  []int // columns whose texts have codes, in all but every third batch

	OpenErr error
	FailAt  int // batches before the error, if it is set
	Err     error
	Before  func(batch int) // called before a batch is built
	OnOpen  func()
}

// Field returns a nullable field.
func Field(name string, dt arrow.DataType) arrow.Field {
	return arrow.Field{Name: name, Type: dt, Nullable: true}
}

// Columns returns fields from "name type" texts.
func Columns(t testing.TB, words ...string) []arrow.Field {
	types := map[string]arrow.DataType{
		"int": arrow.PrimitiveTypes.Int32, "long": arrow.PrimitiveTypes.Int64,
		"string": arrow.BinaryTypes.String, "binary": arrow.BinaryTypes.Binary, "float": arrow.PrimitiveTypes.Float32,
		"date": arrow.FixedWidthTypes.Date32, "bool": arrow.FixedWidthTypes.Boolean,
		"timestamp": arrow.FixedWidthTypes.Timestamp_us, "decimal": &arrow.Decimal128Type{Precision: 9, Scale: 2},
		"local": &arrow.TimestampType{Unit: arrow.Microsecond}, "cents": &arrow.Decimal128Type{Precision: 9, Scale: 3},
		"longs": arrow.ListOf(arrow.PrimitiveTypes.Int64), "uuid": &arrow.FixedSizeBinaryType{ByteWidth: 16},
		"word": &arrow.FixedSizeBinaryType{ByteWidth: 4},
	}
	fields := make([]arrow.Field, len(words))
	for i, w := range words {
		name, dt, _ := strings.Cut(w, " ")
		require.Contains(t, types, dt)
		fields[i] = Field(name, types[dt])
	}
	return fields
}

// Input opens the table. Batches live as short as the contract allows, and are slices that
// do not start at the beginning of their memory.
func (x *Table) Input(t testing.TB, mem memory.Allocator, key, columns []int) joiner.Input {
	schema := arrow.NewSchema(x.Fields, nil)
	return joiner.Input{
		Key: key, Columns: columns,
		File: func(row int64) string {
			for i, cut := range x.Cuts {
				if row -= int64(cut); row < 0 {
					return fmt.Sprintf("%s-%d.parquet", x.Name, i)
				}
			}
			return fmt.Sprintf("%s-%d.parquet", x.Name, len(x.Cuts))
		},
		Open: func(ctx context.Context) (array.RecordReader, error) {
			if x.OnOpen != nil {
				x.OnOpen()
			}
			if x.OpenErr != nil {
				return nil, x.OpenErr
			}
			left, at := x.Rows, 0
			return batch.FromFunc(schema, func() (arrow.RecordBatch, error) {
				if x.Before != nil {
					x.Before(at)
				}
				if x.Err != nil && at == x.FailAt {
					return nil, x.Err
				}
				if at > len(x.Cuts) || ctx.Err() != nil {
					return nil, nil // an input that ends without an error
				}
				n := len(left)
				if at < len(x.Cuts) {
					n = x.Cuts[at]
				}
				at++
				out := Record(t, mem, schema, left[:n])
				left = left[n:]
				if at%3 > 0 {
					out = coded(t, mem, out, x.Coded)
				}
				return out, nil
			}, nil), nil
		},
	}
}

// coded returns a batch with codes of some columns, and releases the one without.
func coded(t testing.TB, mem memory.Allocator, b arrow.RecordBatch, at []int) arrow.RecordBatch {
	defer b.Release()
	g := batch.NewGatherer(mem)
	defer g.Release()
	columns := slices.Clone(b.Columns())
	for _, i := range at {
		one, err := g.GatherCodes(columns[i].DataType(), []batch.Segment{{Values: columns[i], Rows: columns[i].Len()}})
		require.NoError(t, err)
		defer one.Release()
		columns[i] = one
	}
	return array.NewRecordBatch(batch.FormOf(b.Schema(), columns), columns, b.NumRows())
}

// Record returns a batch that is a slice of a longer one: it is preceded by a copy of its
// last row, and followed by a null.
func Record(t testing.TB, mem memory.Allocator, schema *arrow.Schema, rows Rows) arrow.RecordBatch {
	b := array.NewRecordBuilder(mem, schema)
	defer b.Release()
	for i, f := range b.Fields() {
		before := Null
		if len(rows) > 0 {
			before = rows[len(rows)-1][i]
		}
		require.NoError(t, f.AppendValueFromString(before))
		for _, r := range rows {
			require.NoError(t, f.AppendValueFromString(r[i]))
		}
		f.AppendNull()
	}
	whole := b.NewRecordBatch()
	defer whole.Release()
	return whole.NewSlice(1, int64(len(rows))+1)
}

// Text returns the rows of a joined batch as texts, with references resolved.
func Text(t testing.TB, r arrow.RecordBatch) []string {
	out := make([]string, r.NumRows())
	for i := range out {
		var values []string
		for _, c := range r.Columns() {
			d, ok := c.(*array.Dictionary)
			if !ok {
				values = append(values, c.ValueStr(i))
				continue
			}
			require.False(t, d.IsNull(i))
			built := d.Dictionary().(*array.Struct)
			at := d.GetValueIndex(i)
			require.Less(t, at, built.Len())
			require.False(t, built.IsNull(at))
			for f := range built.NumField() {
				require.Equal(t, built.Len(), built.Field(f).Len())
				values = append(values, built.Field(f).ValueStr(at))
			}
		}
		out[i] = strings.Clone(strings.Join(values, " ")) // one value alone would be a view of the batch
	}
	return out
}

// Drain reads a stream to its end and releases it.
func Drain(t testing.TB, r *joiner.Reader) ([]string, []joiner.Counts, error) {
	defer r.Release()
	var out []string
	for r.Next() {
		require.Positive(t, r.RecordBatch().NumRows())
		require.True(t, r.RecordBatch().Schema().Equal(r.Schema()))
		out = append(out, Text(t, r.RecordBatch())...)
	}
	return out, r.Counts(), r.Err()
}

// Built returns the BuildSide function of a probe.
func Built(in joiner.Input, spec joiner.BuildSpec, opts joiner.Options) func(context.Context) (joiner.Probeable, error) {
	return func(ctx context.Context) (joiner.Probeable, error) {
		built, err := joiner.Build(ctx, in, spec, opts)
		if err != nil {
			return nil, err
		}
		return built, nil
	}
}

// Probe probes the table by its first column, and selects all columns from column from on.
func (x *Table) Probe(t testing.TB, from int, rule joiner.Rule, spec joiner.BuildSpec, opts joiner.Options) joiner.Probe {
	spec.Name = rule.Name
	var shown []int
	for i := range x.Fields[from:] {
		shown = append(shown, from+i)
	}
	return joiner.Probe{
		Rule: rule, Key: []int{0}, Columns: x.Fields[from:], Matched: spec.Matched,
		BuildSide: Built(x.Input(t, opts.Memory, []int{0}, shown), spec, opts),
	}
}

// ComesTo checks the result of a join: its rows, in the form of Parse, and the counts of
// its one staging table; or its error.
func ComesTo(t testing.TB, r *joiner.Reader, want string, counts joiner.Counts, fails string) {
	got, all, err := Drain(t, r)
	if fails != "" {
		require.EqualError(t, err, fails)
		require.Equal(t, fault.Invalid, fault.KindOf(err))
		return
	}
	require.NoError(t, err)
	require.Equal(t, Parse(want), Parse(strings.ReplaceAll(strings.Join(got, ","), Null, "-")))
	require.Equal(t, []joiner.Counts{counts}, all)
}

// Suits checks that a join with a staging table named history works, or that it fails,
// when it is opened or read.
func Suits(t testing.TB, r *joiner.Reader, err error, fails string) {
	if err == nil {
		_, _, err = Drain(t, r)
	}
	if fails == "" {
		require.NoError(t, err)
		return
	}
	require.ErrorContains(t, err, fails)
	require.ErrorContains(t, err, "history")
	require.Equal(t, fault.Invalid, fault.KindOf(err))
}

// Parse parses "7 a, 8 -" as two rows, "-" being null.
func Parse(text string) Rows {
	var out Rows
	for row := range strings.SplitSeq(text, ",") {
		if values := strings.Fields(row); len(values) > 0 {
			for i, v := range values {
				if v == "-" {
					values[i] = Null
				}
			}
			out = append(out, values)
		}
	}
	return out
}

// Twos returns the sizes of batches of two rows, and of an empty one at the end.
func Twos(text string) []int {
	var cuts []int
	for left := len(Parse(text)); left > 0; left -= 2 {
		cuts = append(cuts, min(2, left))
	}
	return cuts
}
