package commits_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/iceberg-go"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/penstock/penstock/internal/parquet/parquettest"
	"github.com/penstock/penstock/loader/catalog/commit"
	"github.com/penstock/penstock/loader/catalog/icebergcat"
	"github.com/penstock/penstock/loader/catalog/icebergcat/icebergtest"
)

// Processes that commit to one table at once, while another program commits too, lose nothing
// and make nothing twice.
//
// spec: write-24
func TestCommitsThatRace(t *testing.T) {
	const processes, changes = 8, racingChanges
	eachFast(t, func(t *testing.T, c *icebergtest.Changing) {
		c.Bucketed(t, "2")
		var group errgroup.Group
		var want []string
		for i := range processes {
			tables := c.Tables
			if i%2 == 0 {
				tables = c.Another(t, nil)
			}
			names := icebergtest.Numbered(fmt.Sprintf("p%d", i), changes)
			want = append(want, names...)
			group.Go(func() error {
				for _, name := range names {
					change := commit.Change{Table: icebergtest.Events, Token: commit.NewToken(time.Now(), name), Add: []commit.DataFile{c.File(name, int64(i%4))}}
					if _, err := tables.Commit(t.Context(), change); err != nil {
						return err
					}
				}
				return nil
			})
		}
		require.NoError(t, group.Wait())
		slices.Sort(want)
		require.Equal(t, want, c.Files(t, ""))
		meta := c.Load(t, icebergtest.Events).Metadata()
		require.Len(t, meta.Snapshots(), processes*changes)
		require.Equal(t, int64(processes*changes), meta.LastSequenceNumber())
		require.Equal(t, icebergtest.Itoa(processes*changes), meta.CurrentSnapshot().Summary.Properties["total-data-files"])
		require.Empty(t, orphans(t, c))
	})
}

// orphans returns the orphan files, without metadata files: the log of these is bounded.
func orphans(t *testing.T, c *icebergtest.Changing) []string {
	t.Helper()
	return slices.DeleteFunc(c.Orphans(t), func(name string) bool { return filepath.Ext(name) == ".json" })
}

// An append writes one manifest for each spec, a manifest list and, in a database's catalog, a
// metadata file, and reads no manifest, however many there are.
//
// spec: write-25
func TestAnAppendCostsTheSameForLargeTables(t *testing.T) {
	eachFast(t, func(t *testing.T, c *icebergtest.Changing) {
		c.Bucketed(t, "2")
		// The list before is read; a manifest and a list are written and read back.
		want := 5
		if c.Server == nil {
			want += 3 // the metadata file before is read; the new one is written and read back
		}
		for n := range 4 {
			c.Append(t, "fill", icebergtest.Numbered("f"+icebergtest.Itoa(int64(n)), 300*n+1)...)
			counted := &accidents{}
			tables := c.Another(t, func(o *icebergcat.Options) { o.Store = accidentStore{accidents: counted} })
			_, err := tables.Commit(t.Context(), commit.Change{Table: icebergtest.Events, Token: icebergtest.Token("x"), Add: []commit.DataFile{c.File("x"+icebergtest.Itoa(int64(n)), 1)}})
			require.NoError(t, err)
			require.Equal(t, want, counted.calls)
		}
	})
}

// PyIceberg reads what was committed, and commits to the same tables.
//
// spec: write-26
func TestPyIcebergReadsCommits(t *testing.T) {
	python := os.Getenv("PENSTOCK_PYTHON")
	if python == "" {
		require.Empty(t, os.Getenv("CI"), "CI must set PENSTOCK_PYTHON; make test-go does")
		t.Skip("PENSTOCK_PYTHON names no Python to run PyIceberg with; make test-go sets it")
	}
	const line = "ids [1, 2, 3]; days [1, 2, 3]; 3 files; 4 snapshots; sorted by 2 fields\n"
	arguments, want := []string{"testdata/read_commits.py"}, ""
	for version := 1; version <= 3; version++ {
		c := icebergtest.NewWriter(t).Changes(t)
		arguments, want = append(arguments, c.Dir), want+line
		table := newEvents(version)
		table.Columns = table.Columns[:2]
		require.NoError(t, c.Tables.Create(t.Context(), table))
		var made []commit.Committed
		var files []commit.DataFile
		for i := range int64(3) {
			files = append(files, rows(t, c, fmt.Sprintf("rows-%d", i), i))
			out, err := c.Tables.Commit(t.Context(), commit.Change{Table: icebergtest.Events, Token: icebergtest.Token("rows"), Add: files[i:]})
			require.NoError(t, err)
			made = append(made, out)
		}
		replaced := commit.Change{Table: icebergtest.Events, Token: icebergtest.Token("replace"), Mode: commit.Overwrite, Base: made[2].Snapshot, Remove: []string{files[0].Location}, Add: []commit.DataFile{rows(t, c, "rows-3", 3)}}
		_, err := c.Tables.Commit(t.Context(), replaced)
		require.NoError(t, err)
	}
	out, err := exec.CommandContext(t.Context(), python, arguments...).CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Equal(t, want, string(out), "a line for each format version")
}

// rows writes a file with one row, and describes it.
func rows(t *testing.T, c *icebergtest.Changing, name string, id int64) commit.DataFile {
	t.Helper()
	ids, days := array.NewInt64Builder(memory.DefaultAllocator), array.NewDate32Builder(memory.DefaultAllocator)
	ids.Append(id)
	days.Append(arrow.Date32(id))
	fields := []arrow.Field{{Name: "id", Type: arrow.PrimitiveTypes.Int64}, {Name: "day", Type: arrow.FixedWidthTypes.Date32, Nullable: true}}
	batch := array.NewRecordBatch(arrow.NewSchema(fields, nil), []arrow.Array{ids.NewArray(), days.NewArray()}, 1)
	reader, err := array.NewRecordReader(batch.Schema(), []arrow.RecordBatch{batch})
	require.NoError(t, err)
	var out bytes.Buffer
	require.NoError(t, parquettest.Write(&out, reader, parquettest.Options{FieldIDs: []int{1, 2}}))
	path := filepath.Join(c.Dir, name+".parquet")
	require.NoError(t, os.WriteFile(path, out.Bytes(), 0o600))
	bucket := iceberg.BucketTransform{NumBuckets: 4}.Transformer(iceberg.PrimitiveTypes.Int64)(id).Val
	bound := binary.LittleEndian.AppendUint64(nil, uint64(id)) //nolint:gosec // small
	return commit.DataFile{
		Location: "file://" + path, Partition: []any{int64(bucket)}, Rows: 1, Bytes: int64(out.Len()), SortOrder: 1,
		ColumnMetrics: commit.ColumnMetrics{
			Values: map[int]int64{1: 1, 2: 1}, Nulls: map[int]int64{1: 0, 2: 0},
			Lower: map[int][]byte{1: bound, 2: bound[:4]}, Upper: map[int][]byte{1: bound, 2: bound[:4]},
		},
	}
}
