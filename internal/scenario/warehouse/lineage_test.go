package warehouse_test

import (
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/scenario"
	"github.com/penstock/penstock/internal/scenario/warehouse"
	"github.com/penstock/penstock/loader"
	"github.com/penstock/penstock/loader/dataset"
)

// TestLineage reads the row ids of real tables: each row has its own, and the sequence
// number of the commit that wrote it. Worlds are written until these have lineageRows rows.
//
// spec: resolve-78
func TestLineage(t *testing.T) {
	t.Parallel()
	w, err := warehouse.New(t.TempDir())
	require.NoError(t, err)
	defer func() { require.NoError(t, w.Close()) }()
	seen := 0
	for seed := uint64(0); seen < lineageRows; seed++ {
		require.Less(t, seed, uint64(400), "too few rows")
		c := scenario.Generate(seed, 1+int(seed)%16, 1+int(seed)/16%16)
		made, err := w.Write(t.Context(), c, seed)
		require.NoError(t, err)
		history := made.Histories[c.Training.Name]
		if history.Format == 3 {
			q := &made.Query
			q.Columns = []dataset.Column{{Column: "item"}, {Column: "_row_id"}, {Column: "_last_updated_sequence_number"}}
			q.Filter = dataset.Filter{}
			reader, err := w.Folder(made).Open(t.Context())
			require.NoError(t, err)
			shards, err := reader.Read(t.Context(), made.Case, warehouse.Prediction{}, loader.Options{})
			if err == nil {
				seen += checkLineage(t, made, history, shards)
			}
		}
		made.World.Release()
		require.NoError(t, w.Drop(t.Context(), made))
	}
}

// checkLineage returns the number of rows that it checked.
func checkLineage(t *testing.T, made *warehouse.Written, history warehouse.History, shards []scenario.Shard) (rows int) {
	t.Helper()
	header := strings.Fields(made.Training.Header)
	at := 0
	for i, word := range header {
		if strings.HasPrefix(word, "item:") {
			at = i
		}
	}
	commits := map[string]int64{}
	for i, commit := range made.Training.Commits {
		for _, line := range commit.Lines {
			commits[scenario.Words(line)[at]] = history.Sequence(i)
		}
	}
	items := map[string]string{} // by row id
	for _, shard := range shards {
		for _, row := range scenario.Texts(shard.Rows()) {
			words := strings.Fields(strings.Trim(row, "[]"))
			item, id := words[0], words[1]
			if other, twice := items[id]; twice {
				require.Equal(t, other, item, "two rows have id %s", id)
			}
			items[id] = item
			require.NotContains(t, id, "nil")
			require.Equal(t, commits[item], parsed(t, words[2]), "item %s", item)
			rows++
		}
	}
	return rows
}

func parsed(t *testing.T, text string) int64 {
	t.Helper()
	n, err := strconv.ParseInt(text, 10, 64)
	require.NoError(t, err)
	return n
}
