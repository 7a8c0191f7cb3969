package blocks_test

import (
	"log/slog"
	"runtime"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/flight/blocks"
	"github.com/penstock/penstock/flight/local"
	"github.com/penstock/penstock/flight/local/localtest"
	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/segment"
)

// indexedBytes returns a batch of rows that all refer to the same list of a number of bytes.
func indexedBytes(bytes, rows int) arrow.RecordBatch {
	lists := array.NewListBuilder(batch.Default(), arrow.PrimitiveTypes.Uint8)
	lists.Append(true)
	lists.ValueBuilder().(*array.Uint8Builder).AppendValues(make([]byte, bytes), nil)
	column := lists.NewArray()
	structs, _ := array.NewStructArrayWithFields([]arrow.Array{column}, []arrow.Field{{Name: "l", Type: column.DataType(), Nullable: true}})
	indices := array.NewInt32Builder(batch.Default())
	indices.AppendValues(make([]int32, rows), nil)
	kind := &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int32, ValueType: structs.DataType()}
	indexed := array.NewDictionaryArray(kind, indices.NewArray(), structs)
	return array.NewRecordBatch(arrow.NewSchema([]arrow.Field{{Name: "e", Type: kind}}, nil), []arrow.Array{indexed}, int64(rows))
}

// The bytes of a tensor plan are charged before they are read: a plan without memory is refused.
func TestPlansAreChargedBeforeTheyAreRead(t *testing.T) {
	lender := segment.NewLender(nil, 1<<30)
	defer lender.Close()
	sessions := local.New(lender, time.Now, slog.New(slog.DiscardHandler))
	defer sessions.Close()
	path := localtest.Serve(t, sessions.Serve)
	for size, refused := range map[int]string{32 << 20: "the memory budget's 1048576", 65 << 20: "more than 67108864"} {
		client, err := localtest.Open(path)
		require.NoError(t, err)
		require.NoError(t, client.SendPlan(make([]byte, size)))
		memory := budget.New(1 << 20)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err = blocks.Open(sessions.Claim(client.ID), sessions.LendRing, memory, indexedBytes(1, 1).Schema())
		runtime.ReadMemStats(&after)
		require.ErrorContains(t, err, refused)
		require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(16<<20))
		require.Zero(t, memory.Used())
		require.NoError(t, client.Close())
	}
}

// spec: local-20
func TestLargeExpandedBlocksAreNotDelivered(t *testing.T) {
	lender := segment.NewLender(nil, 1<<30)
	defer lender.Close()
	sessions := local.New(lender, time.Now, slog.New(slog.DiscardHandler))
	defer sessions.Close()
	client, err := localtest.Open(localtest.Serve(t, sessions.Serve))
	require.NoError(t, err)
	defer func() { require.NoError(t, client.Close()) }()
	require.NoError(t, client.SendPlan([]byte(`{"plan": {"columns": [{"name": "l", "form": "lists", "source": "uint8", "conversion": "same", "dtype": "uint8", "nulls": "empty", "element_nulls": "error"}]}}`)))
	memory := budget.New(1 << 20)
	from := indexedBytes(1<<20, 32)
	to, err := blocks.Open(sessions.Claim(client.ID), sessions.LendRing, memory, from.Schema())
	require.NoError(t, err)
	bytes, err := to.Deliver(from, nil, 1)
	require.NoError(t, err)
	require.Zero(t, bytes)
	require.Zero(t, lender.Stats())
	bytes, err = to.Deliver(from.NewSlice(0, 31), []byte("c"), 2)
	require.NoError(t, err)
	require.Greater(t, bytes, int64(31<<20))
	p, ring, err := client.ReceiveBlock(true)
	require.NoError(t, err)
	require.NoError(t, ring.Close())
	require.Equal(t, localtest.BlockPacket{Kind: localtest.NewRing, Number: 1, Offset: p.Offset, Bytes: uint64(bytes), Cursor: 1, Rows: 31, Step: 2}, p)
	to.Close()
	require.Zero(t, memory.Used())
}
