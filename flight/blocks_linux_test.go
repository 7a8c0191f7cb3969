package flight

import (
	"encoding/binary"
	"encoding/json"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/metadata"

	"github.com/penstock/penstock/flight/local"
	"github.com/penstock/penstock/flight/local/localtest"
	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/segment"
)

// itemPlan is a tensor plan for the column item alone, which excludes nulls.
const itemPlan = `{"plan": {"columns": [{"name": "item", "form": "values", "source": "int64", "conversion": "same", "dtype": "int64", "nulls": "corrupt"}]}}`

// header is the number of bytes of a block before its first tensor, if no tensor's size varies.
const header = 256

// blockClient reads the blocks of a stream.
type blockClient struct {
	*near

	ring []byte
}

func (h *localHost) accepting(t *testing.T, plan string) *blockClient {
	t.Helper()
	n := h.near(t)
	require.NoError(t, n.SendPlan([]byte(plan)))
	return &blockClient{near: n}
}

// next returns the next packet, and the numbers and the cursor of its block.
func (c *blockClient) next() (p localtest.BlockPacket, items []int64, cursor json.RawMessage) {
	c.t.Helper()
	p, memory, err := c.ReceiveBlock(c.ring == nil)
	require.NoError(c.t, err)
	if memory != nil {
		c.ring = memory.Memory()
		c.t.Cleanup(func() { require.NoError(c.t, memory.Close()) })
	}
	block := c.ring[p.Offset:][:p.Bytes]
	require.Equal(c.t, "PTB1", string(block[:4]))
	require.Equal(c.t, uint64(p.Rows), binary.LittleEndian.Uint64(block[8:]))
	for at := range int(p.Rows) {
		items = append(items, int64(binary.LittleEndian.Uint64(block[header+8*at:]))) //nolint:gosec // that number
	}
	return p, items, json.RawMessage(c.ring[p.Offset+p.Bytes:][:p.Cursor])
}

// TestBlocksHaveTheRowsOfTheNetwork reads a stream as blocks, and returns each.
//
// spec: local-16, local-17, local-21
func TestBlocksHaveTheRowsOfTheNetwork(t *testing.T) {
	t.Parallel()
	memory := budget.New(1 << 30)
	h := serveLocal(t, 1<<30, Options{Loader: newWorld(t).loader(), Budget: memory})
	for _, wire := range []string{"plain", "auto"} {
		query := `{"dataset":"homefeed","columns":["item"],"batch_rows":4,"lanes":2,"wire":"` + wire + `"}`
		want := h.readAll(t, query)[0]
		c := h.accepting(t, itemPlan)
		stream := h.open(t, c.ID, query)
		var rows [][]any
		for i := range want.cursors {
			p, items, cursor := c.next()
			require.Equal(t, uint32(i+1), p.Number)
			require.JSONEq(t, string(want.cursors[i]), string(cursor))
			for _, item := range items {
				rows = append(rows, []any{item})
			}
			c.record(localtest.Returned, p.Number)
		}
		require.Equal(t, want.rows, rows)
		p, _, err := c.ReceiveBlock(false)
		require.NoError(t, err)
		require.Equal(t, localtest.BlockPacket{Kind: localtest.Message}, p)
		said, _, ok := next(t, stream)
		require.True(t, ok)
		require.NotNil(t, said.Report)
		_, _, ok = next(t, stream)
		require.False(t, ok)
		require.NoError(t, c.Close())
	}
	require.Eventually(t, func() bool { return h.lender.Stats() == segment.LenderStats{} && memory.Used() == 0 }, 10*time.Second, time.Millisecond)
}

// TestBatchesReplaceBlocks reads streams whose plans are not usable, or whose clients hold all slots: each
// message is announced, and none is lost.
//
// spec: local-20
func TestBatchesReplaceBlocks(t *testing.T) {
	t.Parallel()
	h := serveLocal(t, 1<<30, Options{Loader: newWorld(t).loader()})
	query := `{"dataset":"homefeed","columns":["item"],"batch_rows":1,"wire":"plain"}`
	want := h.readAll(t, query)[0]
	require.Greater(t, len(want.cursors), 9)
	for name, plan := range map[string]string{
		"of another schema": `{"plan": {"columns": []}}`,
		"no JSON":           `PTB`,
		"of unknown words":  `{"plan": {"columns": [{"name": "item", "form": "cube"}]}}`,
		"fine":              itemPlan,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := h.accepting(t, plan)
			stream := h.open(t, c.ID, query)
			var rows [][]any
			for i := range want.cursors {
				if plan == itemPlan && i < 8 {
					p, items, _ := c.next()
					rows = append(rows, []any{items[0]})
					c.record(localtest.Seen, p.Number)
					continue
				}
				p, _, err := c.ReceiveBlock(false)
				require.NoError(t, err)
				require.Equal(t, uint32(localtest.Message), p.Kind)
				said, _, ok := next(t, stream)
				require.True(t, ok)
				_, some := c.batch(said)
				rows = append(rows, some...)
				c.record(localtest.Returned, said.Delivery)
			}
			require.Equal(t, want.rows, rows)
		})
	}
}

// A status says how the batches of a stream reach its client.
//
// spec: status-13
func TestWaysOfStreams(t *testing.T) {
	t.Parallel()
	sessions := local.New(segment.NewLender(nil, 1<<20), time.Now, slog.New(slog.DiscardHandler))
	t.Cleanup(sessions.Close)
	path := localtest.Serve(t, sessions.Serve)
	open := func(plan string) *local.Session {
		c, err := localtest.Open(path)
		require.NoError(t, err)
		t.Cleanup(func() { _ = c.Close() })
		if plan != "" {
			require.NoError(t, c.SendPlan([]byte(plan)))
		}
		one := sessions.Claim(c.ID)
		require.NotNil(t, one)
		return one
	}
	received := metadata.NewIncomingContext(t.Context(), metadata.Pairs(headerReceiver, "1"))
	require.Equal(t, "ring", wayOf(received, open(itemPlan)))
	require.Equal(t, "mapped", wayOf(received, open("")))
	require.Equal(t, "receiver", wayOf(received, nil))
	require.Equal(t, "network", wayOf(t.Context(), nil))
}
