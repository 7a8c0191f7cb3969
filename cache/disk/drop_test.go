package disk

import (
	"context"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/fault"
)

const otherTable = "9d1c0000-7a4d-4c4e-9f6b-6f3b6d3c1d10"

// ofTable is numbered of another table.
func ofTable(uuid string, n int) ColumnID {
	id := numbered(n)
	id.Table = uuid
	return id
}

// TestDropTables deletes the chunks of one table, also those that another process wrote. A damaged file stays until it is read, and
// the others are worth what they were.
//
// spec: disk-8
func TestDropTables(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	for i := range 4 {
		r.put(numbered(i), uint32(i), numbers(0, 100))
		r.put(ofTable(otherTable, i), uint32(i), numbers(0, 100))
	}
	r.restart()
	r.requireGet(ofTable(otherTable, 0), numbers(0, 100))
	damaged := ofTable(otherTable, 3)
	path := filepath.Join(r.options.Folder, chunkName(damaged.Key(), 3))
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	content[60] ^= 1
	require.NoError(t, os.WriteFile(path, content, 0o600))
	worth := func() map[ChunkKey]float64 {
		out := map[ChunkKey]float64{}
		for key, f := range r.tier.ledger.files {
			if f.size > 0 {
				out[key] = f.worth + float64(f.order)/1000
			}
		}
		return out
	}
	before := worth()

	chunks, bytes, err := r.tier.DropTables(t.Context(), map[string]bool{otherTable: true, "another": true})
	require.NoError(t, err)
	require.Equal(t, 3, chunks)
	require.EqualValues(t, 3*2*diskBlock, bytes)
	after := worth()
	require.Len(t, after, 5)
	for key, w := range after {
		require.InDelta(t, before[key], w, 0)
	}
	require.EqualValues(t, 5*2*diskBlock, r.tier.Stats().Folder.Bytes)
	for i := range 4 {
		_, ok := r.get(ofTable(otherTable, i), numbers(0, 100))
		require.False(t, ok)
		r.requireGet(numbered(i), numbers(0, 100))
	}
	r.restart()
	require.Equal(t, 4, r.tier.Stats().Folder.Chunks)
	r.put(ofTable(otherTable, 1), 1, numbers(0, 100))
	r.requireGet(ofTable(otherTable, 1), numbers(0, 100))
}

// TestDropsIncludeWhatIsWritten drops a table of which one chunk is being written and others wait: none stays.
//
// spec: disk-8
func TestDropsIncludeWhatIsWritten(t *testing.T) {
	for _, all := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			system := newFaultySystem()
			r := newRig(t, func(o *Options) { o.system = system.system() })
			release := system.hanging("write")
			var done atomic.Int64
			put := func(id ColumnID) {
				require.True(t, r.tier.Put(Offer{ID: id, Arrays: []arrow.Array{numbers(0, 1_000)}, Done: func() { done.Add(1) }}))
			}
			put(ofTable(otherTable, 0))
			synctest.Wait()
			put(ofTable(otherTable, 1))
			put(numbered(2))
			if all {
				r.tier.DropAll(t.Context())
			} else {
				_, _, err := r.tier.DropTables(t.Context(), map[string]bool{otherTable: true})
				require.NoError(t, err)
			}
			release()
			synctest.Wait()
			require.EqualValues(t, 3, done.Load())
			left := 1
			if all {
				left = 0
			}
			require.Equal(t, left, r.tier.Stats().Folder.Chunks)
			require.Len(t, chunksIn(t, r.options.Folder), left)
			r.tier.Close(t.Context())
		})
	}
}

func chunksIn(t *testing.T, folder string) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(folder, "*"+chunkSuffix))
	require.NoError(t, err)
	return found
}

// TestDropsOfTablesThatFail: without memory, or if the disk hangs, they return an error.
//
// spec: disk-8
func TestDropsOfTablesThatFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		system := newFaultySystem()
		r := newRig(t, func(o *Options) { o.system = system.system() })
		r.put(numbered(0), 1, numbers(0, 100))
		others, err := r.budget.Reserve("others", r.budget.Limit()-r.budget.Used())
		require.NoError(t, err)
		tables := map[string]bool{numbered(0).Table: true}
		_, _, err = r.tier.DropTables(t.Context(), tables)
		require.Equal(t, fault.Exhausted, fault.KindOf(err))
		others.Release()

		ended, end := context.WithCancel(t.Context())
		end()
		_, _, err = r.tier.DropTables(ended, tables)
		require.ErrorIs(t, err, context.Canceled)

		release := system.hanging("open")
		_, _, err = r.tier.DropTables(t.Context(), tables)
		require.Equal(t, fault.Unavailable, fault.KindOf(err), err)
		release()
		synctest.Wait()
		chunks, _, err := r.tier.DropTables(t.Context(), tables)
		require.NoError(t, err)
		require.Equal(t, 1, chunks)
		r.tier.Close(t.Context())
	})
}
