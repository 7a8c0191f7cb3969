package joiner

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/fault"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// null is how Arrow writes a null as text, both ways.
const null = array.NullValueStr

// checked returns an allocator that spoils what is freed, and fails the test
// when something is not.
func checked(t testing.TB) memory.Allocator {
	under := memory.NewCheckedAllocator(memory.NewGoAllocator())
	t.Cleanup(func() { under.AssertSize(t, 0) })
	return batch.NewPoison(under)
}

// rows holds rows of values as Arrow writes them.
type rows [][]string

// table is a stream to be: rows, and where they are cut into batches.
type table struct {
	fields []arrow.Field
	rows   rows
	cuts   []int // rows of each batch; what is left over is one more
	name   string

	openErr error
	failAt  int // batches before err, if it is set
	err     error
	before  func(batch int) // called before a batch is made
	onOpen  func()
}

func field(name string, dt arrow.DataType) arrow.Field {
	return arrow.Field{Name: name, Type: dt, Nullable: true}
}

// columns makes fields of "name type" words.
func columns(t testing.TB, words ...string) []arrow.Field {
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
		fields[i] = field(name, types[dt])
	}
	return fields
}

// input opens the table. Batches live no longer than the contract says, and
// are slices of some memory that they do not begin.
func (x *table) input(t testing.TB, mem memory.Allocator, key, columns []int) Input {
	schema := arrow.NewSchema(x.fields, nil)
	return Input{
		Key: key, Columns: columns,
		File: func(row int64) string {
			for i, cut := range x.cuts {
				if row -= int64(cut); row < 0 {
					return fmt.Sprintf("%s-%d.parquet", x.name, i)
				}
			}
			return fmt.Sprintf("%s-%d.parquet", x.name, len(x.cuts))
		},
		Open: func(ctx context.Context) (array.RecordReader, error) {
			if x.onOpen != nil {
				x.onOpen()
			}
			if x.openErr != nil {
				return nil, x.openErr
			}
			left, at := x.rows, 0
			return batch.FromFunc(schema, func() (arrow.RecordBatch, error) {
				if x.before != nil {
					x.before(at)
				}
				if x.err != nil && at == x.failAt {
					return nil, x.err
				}
				if at > len(x.cuts) || ctx.Err() != nil {
					return nil, nil // an input that does not say why it stops
				}
				n := len(left)
				if at < len(x.cuts) {
					n = x.cuts[at]
				}
				at++
				out := record(t, mem, schema, left[:n])
				left = left[n:]
				return out, nil
			}, nil), nil
		},
	}
}

// record makes a batch that is a slice of a longer one: its last row stands
// before it too, and a null after it.
func record(t testing.TB, mem memory.Allocator, schema *arrow.Schema, rows rows) arrow.RecordBatch {
	b := array.NewRecordBuilder(mem, schema)
	defer b.Release()
	for i, f := range b.Fields() {
		before := null
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

// text writes the rows of a joined batch, its references followed.
func text(t testing.TB, r arrow.RecordBatch) []string {
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
			side := d.Dictionary().(*array.Struct)
			at := d.GetValueIndex(i)
			require.Less(t, at, side.Len())
			require.False(t, side.IsNull(at))
			for f := range side.NumField() {
				require.Equal(t, side.Len(), side.Field(f).Len())
				values = append(values, side.Field(f).ValueStr(at))
			}
		}
		out[i] = strings.Clone(strings.Join(values, " ")) // one value alone would be a view of the batch
	}
	return out
}

// drain reads a stream to its end and releases it.
func drain(t testing.TB, r *Reader) ([]string, []Counts, error) {
	defer r.Release()
	var out []string
	for r.Next() {
		require.Positive(t, r.RecordBatch().NumRows())
		require.True(t, r.RecordBatch().Schema().Equal(r.Schema()))
		out = append(out, text(t, r.RecordBatch())...)
	}
	return out, r.Counts(), r.Err()
}

// built makes the BuildSide function of a probe.
func built(in Input, spec BuildSpec, opts Options) func(context.Context) (Probeable, error) {
	return func(ctx context.Context) (Probeable, error) {
		side, err := Build(ctx, in, spec, opts)
		if err != nil {
			return nil, err
		}
		return side, nil
	}
}

// probe looks in the table by its first column, and shows all from column from on.
func (x *table) probe(t testing.TB, from int, rule Rule, spec BuildSpec, opts Options) Probe {
	spec.Name = rule.Name
	var shown []int
	for i := range x.fields[from:] {
		shown = append(shown, from+i)
	}
	return Probe{
		Rule: rule, Key: []int{0}, Columns: x.fields[from:], Matched: spec.Matched,
		BuildSide: built(x.input(t, opts.Memory, []int{0}, shown), spec, opts),
	}
}

// comesTo reads a join: it has some rows, as parse reads them, and counts of its
// one level; or it fails.
func comesTo(t testing.TB, r *Reader, want string, counts Counts, fails string) {
	got, all, err := drain(t, r)
	if fails != "" {
		require.EqualError(t, err, fails)
		require.Equal(t, fault.Invalid, fault.KindOf(err))
		return
	}
	require.NoError(t, err)
	require.Equal(t, parse(want), parse(strings.ReplaceAll(strings.Join(got, ","), null, "-")))
	require.Equal(t, []Counts{counts}, all)
}

// suits reads a join with a level called history, which is good or fails, opened
// or not.
func suits(t testing.TB, r *Reader, err error, fails string) {
	if err == nil {
		_, _, err = drain(t, r)
	}
	if fails == "" {
		require.NoError(t, err)
		return
	}
	require.ErrorContains(t, err, fails)
	require.ErrorContains(t, err, "history")
	require.Equal(t, fault.Invalid, fault.KindOf(err))
}

// holds returns the bytes of memory that a side holds.
func holds(s *BuildSide) int64 {
	var keys vector
	var x *index
	switch l := s.lookups.(type) {
	case *index:
		keys, x = l.keys, l
	case *merged:
		keys, x = l.keys, l.index.Load()
	}
	bytes := 8*cap(keys.ints) + cap(keys.arena) + 8*cap(keys.ends) + 8*cap(s.times)
	if x != nil {
		bytes += 4 * cap(x.slots)
	}
	return batch.ArraySize(s.dictionary) + int64(bytes+4*(cap(s.groups.of)+cap(s.groups.starts)+cap(s.groups.members)))
}
