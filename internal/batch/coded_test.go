package batch_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/batch"
)

// repeatedTexts makes n rows with few distinct values: empty, short and long, with nulls if some is
// set, sliced from a longer array.
func repeatedTexts(r *rand.Rand, dt arrow.DataType, n, distinct int, some bool) arrow.Array {
	b := array.NewBuilder(memory.DefaultAllocator, dt)
	defer b.Release()
	for range n + 3 {
		v := r.IntN(distinct)
		text := fmt.Sprint(v, strings.Repeat("é", v*7%23))
		switch {
		case some && r.IntN(4) == 0:
			b.AppendNull()
			continue
		case v%5 == 0:
			text = ""
		}
		switch b := b.(type) {
		case *array.StringBuilder:
			b.Append(text)
		case *array.BinaryBuilder:
			b.Append([]byte(text))
		}
	}
	whole := b.NewArray()
	defer whole.Release()
	return array.NewSlice(whole, 1, int64(n)+1)
}

// coded returns the same rows as codes of a width in bytes, in memory of mem, sliced from a longer
// column.
func coded(t *testing.T, a arrow.Array, width int, mem memory.Allocator) arrow.Array {
	t.Helper()
	g := batch.NewGatherer(mem)
	defer g.Release()
	out, err := g.GatherCodes(a.DataType(), []batch.Segment{{Values: a, Rows: 1}, {Values: a, Rows: a.Len()}, {Values: a, Rows: 1}})
	require.NoError(t, err)
	defer out.Release()
	if width < 4 && out.(*array.Dictionary).Dictionary().Len() > 0 {
		narrow := batch.Recode(a.DataType(), nil, []arrow.Array{out}, mem)
		require.NotNil(t, narrow)
		defer narrow.Release()
		return array.NewSlice(narrow, 2, int64(a.Len())+2)
	}
	return array.NewSlice(out, 1, int64(a.Len())+1)
}

// checkedMemory returns an allocator that fails the test if memory is not freed.
func checkedMemory(t *testing.T) memory.Allocator {
	under := memory.NewCheckedAllocator(batch.Default())
	t.Cleanup(func() { under.AssertSize(t, 0) })
	return batch.NewPoison(under)
}

// TestCodedColumnsAreGathered gathers, chooses and compares rows of both forms, at the top and in
// structs.
func TestCodedColumnsAreGathered(t *testing.T) {
	r := rand.New(rand.NewPCG(21, 4))
	for i := range 200 {
		mem := checkedMemory(t)
		dt := []arrow.DataType{arrow.BinaryTypes.String, arrow.BinaryTypes.Binary}[i%2]
		var plain, both []arrow.Array
		for k := range 1 + r.IntN(3) {
			a := repeatedTexts(r, dt, 40+r.IntN(200), 1+r.IntN(30), i%3 > 0)
			plain, both = append(plain, a), append(both, a)
			a.Retain()
			if k != 1 {
				both[k].Release()
				both[k] = coded(t, a, []int{1, 4}[r.IntN(2)], mem)
				require.True(t, batch.IsCoded(both[k]))
				require.Equal(t, dt, batch.ValueType(both[k].DataType()))
			}
		}
		var want, segments []batch.Segment
		for range r.IntN(6) {
			k := r.IntN(len(plain))
			s := batch.Segment{Values: plain[k], Rows: plain[k].Len()}
			if r.IntN(2) == 0 {
				s = batch.Segment{Values: plain[k], Indices: make([]int32, r.IntN(50))}
				for row := range s.Indices {
					s.Indices[row] = int32(r.IntN(plain[k].Len()))
				}
			}
			want = append(want, s)
			s.Values = both[k]
			segments = append(segments, s)
		}
		requireGatheredForms(t, dt, want, segments, mem)
		if len(want) > 0 {
			x, err := batch.ValueBytes(want)
			require.NoError(t, err)
			y, err := batch.ValueBytes(segments)
			require.NoError(t, err)
			require.Equal(t, x, y)
		}
		requireChosen(t, r, plain, both, mem)
		for range 20 {
			a, b := r.IntN(len(both)), r.IntN(len(both))
			i, j := r.IntN(both[a].Len()), r.IntN(both[b].Len())
			require.Equal(t, batch.SameRow(plain[a], i, plain[b], j), batch.SameRow(both[a], i, both[b], j))
		}
		for k := range plain {
			same := [2][]bool{}
			for side, a := range []arrow.Array{plain[k], both[k]} {
				for range a.Len() {
					same[side] = append(same[side], true)
				}
				batch.Repeats(a, same[side])
			}
			require.Equal(t, same[0], same[1])
			plain[k].Release()
			both[k].Release()
		}
	}
}

// requireGatheredForms gathers segments of both forms, and their structs.
func requireGatheredForms(t *testing.T, dt arrow.DataType, want, segments []batch.Segment, mem memory.Allocator) {
	t.Helper()
	g := batch.NewGatherer(mem)
	defer g.Release()
	wanted, err := batch.Gather(dt, want, nil)
	require.NoError(t, err)
	got, err := g.Gather(dt, segments)
	require.NoError(t, err)
	defer got.Release()
	require.True(t, arrow.TypeEqual(dt, got.DataType()))
	require.Equal(t, valuesOf(wanted), valuesOf(got))
	size, err := g.Size(dt, segments)
	require.NoError(t, err)
	plain, err := g.Size(dt, want)
	require.NoError(t, err)
	require.GreaterOrEqual(t, size, plain)
	require.LessOrEqual(t, size, plain+int64(got.Len()/8+1)) // a slice may have validity bits that no row needs

	// The type of a struct names that of the values.
	row := arrow.StructOf(arrow.Field{Name: "text", Type: dt, Nullable: true})
	structs := make([]batch.Segment, len(segments))
	for i, s := range segments {
		structs[i] = s
		data := array.NewData(row, s.Values.Len(), []*memory.Buffer{nil}, []arrow.ArrayData{s.Values.Data()}, 0, 0)
		structs[i].Values = array.NewStructData(data)
		data.Release()
		defer structs[i].Values.Release()
		kept := batch.Retained{}
		require.Equal(t, batch.ArraySize(structs[i].Values), kept.Add([]arrow.Array{structs[i].Values}))
		require.Equal(t, batch.ArraySize(structs[i].Values), kept.Remove([]arrow.Array{structs[i].Values}))
		require.Empty(t, kept)
	}
	whole, err := g.Gather(row, structs)
	require.NoError(t, err)
	defer whole.Release()
	require.True(t, arrow.TypeEqual(dt, whole.(*array.Struct).Field(0).DataType()))
	require.Equal(t, valuesOf(wanted), valuesOf(whole.(*array.Struct).Field(0)))

	// Codes of the rows depend on these alone.
	codes, err := g.GatherCodes(dt, segments)
	require.NoError(t, err)
	defer codes.Release()
	same, err := g.GatherCodes(dt, want)
	require.NoError(t, err)
	defer same.Release()
	require.Equal(t, valuesOf(wanted), valuesOf(codes))
	require.Equal(t, same.(*array.Dictionary).Indices().String(), codes.(*array.Dictionary).Indices().String())
	require.Equal(t, valuesOf(same.(*array.Dictionary).Dictionary()), valuesOf(codes.(*array.Dictionary).Dictionary()))
	before, next := map[any]bool{}, 0
	for i, v := range valuesOf(wanted) {
		if v != nil && !before[v] {
			require.Equal(t, next, codes.(*array.Dictionary).GetValueIndex(i))
			before[v], next = true, next+1
		}
	}
	require.Equal(t, next, codes.(*array.Dictionary).Dictionary().Len())
	bound, working, err := g.SizeOfCodes(dt, segments)
	require.NoError(t, err)
	require.Greater(t, working, int64(96*wanted.Len()))
	require.GreaterOrEqual(t, bound, g.AllocatedCodes(codes))
	require.GreaterOrEqual(t, g.AllocatedCodes(codes)+4*64, batch.ArraySize(codes)) // buffers of this allocator are rounded up
}

func requireChosen(t *testing.T, r *rand.Rand, plain, both []arrow.Array, mem memory.Allocator) {
	t.Helper()
	n := r.IntN(100)
	which, at := make([]int32, n), make([]int32, n)
	for i := range which {
		which[i] = int32(r.IntN(len(plain)))
		at[i] = int32(r.IntN(plain[which[i]].Len()))
	}
	want, err := batch.Choose(plain[0].DataType(), plain, which, at, nil)
	require.NoError(t, err)
	got, err := batch.Choose(plain[0].DataType(), both, which, at, mem)
	require.NoError(t, err)
	defer got.Release()
	require.Equal(t, valuesOf(want), valuesOf(got))
}

// TestRecode merges the dictionaries of columns, and compares with WithFirst.
func TestRecode(t *testing.T) {
	r := rand.New(rand.NewPCG(22, 4))
	widths, none := map[string]int{}, 0
	for i := range 200 {
		mem := checkedMemory(t)
		dt := []arrow.DataType{arrow.BinaryTypes.String, arrow.BinaryTypes.Binary}[i%2]
		distinct := []int{3, 20, 400, 100000}[r.IntN(4)]
		var arrays []arrow.Array
		var bytes int64
		for range 1 + r.IntN(4) {
			a := repeatedTexts(r, dt, 1+r.IntN(3000), distinct, r.IntN(2) == 0)
			if i%20 == 0 { // only nulls
				a.Release()
				a = batch.Nulls(dt, 9, memory.DefaultAllocator)
			}
			if r.IntN(4) > 0 {
				one := coded(t, a, 4, mem)
				// A second array with the same dictionary, as a later batch of a row group has.
				if r.IntN(2) == 0 {
					arrays = append(arrays, array.NewSlice(one, int64(one.Len()/2), int64(one.Len())))
				}
				arrays = append(arrays, one)
				a.Release()
			} else {
				arrays = append(arrays, a)
			}
		}
		var first arrow.Array
		if r.IntN(2) == 0 {
			first = repeatedTexts(r, dt, 1, 7, i%3 == 0)
		}
		bound, useful := batch.RecodingBytes(first, arrays)
		want, err := batch.WithFirst(dt, first, arrays, nil)
		require.NoError(t, err)
		got := batch.Recode(dt, first, arrays, mem)
		if got == nil {
			none++
		} else {
			widths[got.(*array.Dictionary).Indices().DataType().String()]++
			require.True(t, !useful || bound >= batch.ArraySize(got))
			require.Equal(t, valuesOf(want), valuesOf(got))
			require.Equal(t, want.NullN(), got.NullN())
			require.LessOrEqual(t, batch.ArraySize(got), batch.ArraySize(want)+3*64) // buffers are rounded up
			bytes, err = batch.ValueBytes([]batch.Segment{{Values: got, Rows: got.Len()}})
			require.NoError(t, err)
			same, err := batch.ValueBytes([]batch.Segment{{Values: want, Rows: want.Len()}})
			require.NoError(t, err)
			require.Equal(t, same, bytes, "nulls are empty")
			got.Release()
		}
		for _, a := range arrays {
			a.Release()
		}
	}
	require.NotZero(t, none)
	for _, name := range []string{"uint8", "uint16"} {
		require.NotZero(t, widths[name], name)
	}
}

// TestFormOf names the types of a batch's columns, for which a stream's schema has those of values.
func TestFormOf(t *testing.T) {
	r := rand.New(rand.NewPCG(23, 4))
	mem := checkedMemory(t)
	a := repeatedTexts(r, arrow.BinaryTypes.String, 20, 3, false)
	defer a.Release()
	c := coded(t, a, 4, mem)
	defer c.Release()
	stream := arrow.NewSchema([]arrow.Field{{Name: "a", Type: a.DataType()}, {Name: "b", Type: a.DataType(), Nullable: true}}, nil)
	require.Same(t, stream, batch.FormOf(stream, []arrow.Array{a, a}))
	form := batch.FormOf(stream, []arrow.Array{a, c})
	require.Equal(t, batch.Coded(arrow.BinaryTypes.String), form.Field(1).Type)
	require.True(t, form.Field(1).Nullable)
	require.True(t, batch.SameValues(form, stream))
	require.False(t, batch.SameValues(stream, form))
	require.False(t, batch.SameValues(arrow.NewSchema(form.Fields()[:1], nil), stream))
	b := array.NewRecordBatch(form, []arrow.Array{a, c}, 20)
	defer b.Release()
	require.Equal(t, batch.Size(b)-batch.ArraySize(c.(*array.Dictionary).Dictionary()), batch.OwnSize(b))
}
