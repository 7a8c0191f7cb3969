package write_test

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"strconv"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/bitutil"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/apache/arrow-go/v18/parquet/metadata"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/parquet/write"
)

// hiding makes nested arrays that have values below nulls. Leaves are not negative where all arrays around them are
// valid, and negative elsewhere.
type hiding struct {
	*rand.Rand
	world *world
}

// field returns a field of a type with at most depth levels.
func (h *hiding) field(name string, depth int) arrow.Field {
	kind := h.IntN(4)
	switch {
	case depth == 0 || kind == 0:
		return h.world.field(name, arrow.PrimitiveTypes.Int64, true)
	case kind == 1:
		return h.world.field(name, arrow.StructOf(h.field("a", depth-1), h.field("b", depth-1)), true)
	case kind == 2:
		return h.world.field(name, arrow.ListOfField(h.field("element", depth-1)), true)
	default:
		value := h.field("value", depth-1)
		key := h.world.field("key", arrow.PrimitiveTypes.Int64, false)
		return h.world.field(name, arrow.MapOfFields(key, value), true)
	}
}

// data makes n values of a type. shown reports which of them have only valid arrays around them; required: none is null.
func (h *hiding) data(t arrow.DataType, shown []bool, required bool) arrow.ArrayData {
	n, nulls := len(shown), 0
	bits := make([]byte, bitutil.BytesForBits(int64(n)))
	within := make([]bool, n)
	for i := range n {
		valid := required || h.IntN(3) > 0
		bitutil.SetBitTo(bits, i, valid)
		if within[i] = shown[i] && valid; !valid {
			nulls++
		}
	}
	buffers := []*memory.Buffer{memory.NewBufferBytes(bits)}
	switch t := t.(type) {
	case *arrow.StructType:
		children := []arrow.ArrayData{}
		for _, f := range t.Fields() {
			children = append(children, h.data(f.Type, within, !f.Nullable))
		}
		return array.NewData(t, n, buffers, children, nulls, 0)
	case arrow.OffsetsDataType:
		ends, elements := make([]int32, n+1), []bool{}
		for i := range n {
			for range h.IntN(3) {
				elements = append(elements, within[i])
			}
			ends[i+1] = int32(len(elements))
		}
		of, entries := t.(arrow.NestedType).Fields()[0], t.ID() == arrow.MAP
		child := h.data(of.Type, elements, entries || !of.Nullable)
		return array.NewData(t, n, append(buffers, memory.NewBufferBytes(arrow.Int32Traits.CastToBytes(ends))), []arrow.ArrayData{child}, nulls, 0)
	default:
		values := make([]int64, n)
		for i := range values {
			if values[i] = h.Int64N(1000); !within[i] {
				values[i] = -1 - values[i]
			}
		}
		return array.NewData(t, n, append(buffers, memory.NewBufferBytes(arrow.Int64Traits.CastToBytes(values))), nil, nulls, 0)
	}
}

// TestHiddenValuesAtAnyDepth writes structs, lists and maps in each other, each of which has values where it is null.
// None of the values is in the file, in its statistics or in the bounds for manifests.
//
// spec: file-1, file-7
func TestHiddenValuesAtAnyDepth(t *testing.T) {
	t.Parallel()
	for seed := range uint64(60) {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			t.Parallel()
			h := &hiding{Rand: rand.New(rand.NewPCG(seed, 1)), world: newWorld(seed)}
			sc := arrow.NewSchema([]arrow.Field{h.field("c", 4)}, nil)
			shown := make([]bool, 1+h.IntN(300))
			for i := range shown {
				shown[i] = true
			}
			column := array.MakeFromData(h.data(sc.Field(0).Type, shown, false))
			rows := array.NewRecordBatch(sc, []arrow.Array{column}, int64(len(shown)))
			from := h.Int64N(rows.NumRows())
			part := rows.NewSlice(from, rows.NumRows())
			content, out := writeFile(t, write.Options{Schema: sc}, part)
			requireRows(t, content, sc, part)
			for id, lower := range out.Lower {
				require.GreaterOrEqual(t, int64(binary.LittleEndian.Uint64(lower)), int64(0), "the lower bound of field %d", id)
				require.GreaterOrEqual(t, int64(binary.LittleEndian.Uint64(out.Upper[id])), int64(0), "the upper bound of field %d", id)
			}
			requireShownStatistics(t, content)
		})
	}
}

// requireShownStatistics requires that no chunk of a file has statistics with a negative number.
func requireShownStatistics(t *testing.T, content []byte) {
	t.Helper()
	rdr, err := file.NewParquetReader(bytes.NewReader(content))
	require.NoError(t, err)
	defer rdr.Close() //nolint:errcheck // of a file in memory
	for g := range rdr.NumRowGroups() {
		for c := range rdr.MetaData().Schema.NumColumns() {
			chunk, err := rdr.MetaData().RowGroup(g).ColumnChunk(c)
			require.NoError(t, err)
			stats, err := chunk.Statistics()
			require.NoError(t, err)
			if stats != nil && stats.HasMinMax() {
				require.GreaterOrEqual(t, stats.(*metadata.Int64Statistics).Min(), int64(0), "column %d", c)
			}
		}
	}
}
