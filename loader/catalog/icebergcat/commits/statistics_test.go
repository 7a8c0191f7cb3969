package commits_test

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"testing"
	"time"

	icepuffin "github.com/apache/iceberg-go/puffin"
	icetable "github.com/apache/iceberg-go/table"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/puffin"
	"github.com/penstock/penstock/internal/theta"
	"github.com/penstock/penstock/loader/catalog/commit"
	"github.com/penstock/penstock/loader/catalog/icebergcat"
	"github.com/penstock/penstock/loader/catalog/icebergcat/icebergtest"
)

// toKeep returns statistics of a snapshot with sketches of columns.
func toKeep(snapshot int64, report string, columns ...int) commit.SnapshotStatistics {
	out := commit.SnapshotStatistics{
		Table: icebergtest.Events, Snapshot: snapshot, Report: commit.StatisticsBlob{Fields: columns, Content: []byte(report)}, Time: time.Unix(1790000000, 0), Rows: 10,
		CreatedBy: "Penstock test",
	}
	for _, id := range columns {
		s := &theta.Sketch{}
		for v := range uint64(100) {
			s.AddUint64(v)
		}
		out.Sketches = append(out.Sketches, commit.StatisticsBlob{Fields: []int{id}, Properties: map[string]string{commit.BlobDistinct: "100"}, Content: s.Bytes()})
	}
	return out
}

// keptIn returns the blobs of a snapshot's statistics file, as iceberg-go reads them, and checks that the metadata describes them.
func keptIn(t *testing.T, c *icebergtest.Changing, snapshot int64) []puffin.Blob {
	t.Helper()
	for f := range c.Load(t, icebergtest.Events).Metadata().Statistics() {
		if f.SnapshotID != snapshot {
			continue
		}
		content, err := os.ReadFile(icebergtest.Local(t, f.StatisticsPath))
		require.NoError(t, err)
		require.EqualValues(t, len(content), f.FileSizeInBytes)
		require.Equal(t, "PFA1", string(content[f.FileSizeInBytes-f.FileFooterSizeInBytes:][:4]))
		blobs, err := puffin.Decode(content)
		require.NoError(t, err)
		var listed []puffin.Blob
		for _, b := range blobs {
			if b.Type != commit.ReportBlob { // PyIceberg would refuse the table
				listed = append(listed, b)
			}
		}
		require.Len(t, f.BlobMetadata, len(listed))
		for i, b := range listed {
			described := f.BlobMetadata[i]
			require.Equal(t, []any{b.Type, b.Snapshot, b.Sequence, b.Properties}, []any{string(described.Type), described.SnapshotID, described.SequenceNumber, described.Properties})
		}
		read, err := icepuffin.NewReader(bytes.NewReader(content))
		require.NoError(t, err)
		for i, b := range blobs {
			if b.CompressionCodec == "" {
				other, err := read.ReadBlob(i)
				require.NoError(t, err)
				require.Equal(t, b.Content, other.Data)
			}
		}
		return blobs
	}
	return nil
}

// describedBlobs returns the types of blobs, with the number of distinct values of sketches.
func describedBlobs(blobs []puffin.Blob) (out []string) {
	for _, b := range blobs {
		out = append(out, b.Type+" "+b.Properties[commit.BlobDistinct])
	}
	return out
}

// foreign sets statistics as another program does: an unknown blob that is compressed and has an unknown member, and a sketch
// of column 1.
func foreign(t *testing.T, c *icebergtest.Changing, snapshot int64) []puffin.Blob {
	t.Helper()
	content, footer, err := puffin.Encode([]puffin.Blob{
		{Type: "later-v9", Fields: []int{1, 2}, Snapshot: snapshot, Sequence: 1, CompressionCodec: "zstd", Properties: map[string]string{"a": "b"}, Content: []byte("any bytes")},
		{Type: puffin.ThetaSketch, Fields: []int{1}, Snapshot: snapshot, Sequence: 1, Properties: map[string]string{commit.BlobDistinct: "7"}, Content: new(theta.Sketch).Bytes()},
	}, nil)
	require.NoError(t, err)
	edited := bytes.Replace(content, []byte(`{"compression-codec"`), []byte(`{"x":1,"compression-codec"`), 1)
	n := len(edited) - 12
	edited[n] += byte(len(edited) - len(content))
	require.Len(t, edited, len(content)+len(`"x":1,`))
	path := c.Dir + "/foreign.stats"
	require.NoError(t, os.WriteFile(path, edited, 0o600))
	c.Update(t, icebergtest.Events, icetable.NewSetStatisticsUpdate(icetable.StatisticsFile{
		SnapshotID: snapshot, StatisticsPath: "file://" + path, FileSizeInBytes: int64(len(edited)), FileFooterSizeInBytes: footer + 6,
		BlobMetadata: []icetable.BlobMetadata{
			{Type: "later-v9", SnapshotID: snapshot, SequenceNumber: 1, Fields: []int32{1, 2}, Properties: map[string]string{"a": "b"}},
			{Type: puffin.ThetaSketch, SnapshotID: snapshot, SequenceNumber: 1, Fields: []int32{1}, Properties: map[string]string{commit.BlobDistinct: "7"}},
		},
	}))
	return keptIn(t, c, snapshot)
}

// Statistics are kept for their snapshot: with the blobs of other programs, and without Penstock's blobs of before.
//
// spec: stats-14, stats-15
func TestStatisticsAreKept(t *testing.T) {
	icebergtest.EachChanging(t, func(t *testing.T, c *icebergtest.Changing) {
		c.Bucketed(t, "2")
		first, second := c.Append(t, "first", "a").Snapshot, c.Append(t, "second", "b").Snapshot
		location, err := c.Tables.KeepStatistics(t.Context(), toKeep(first, "one", 1, 2))
		require.NoError(t, err)
		require.True(t, commit.Owned(location))
		require.Equal(t, []string{"apache-datasketches-theta-v1 100", "apache-datasketches-theta-v1 100", "penstock-stats-v1 "}, describedBlobs(keptIn(t, c, first)))
		require.Nil(t, keptIn(t, c, second))

		others := foreign(t, c, second)
		for _, report := range []string{"two", "three"} {
			_, err = c.Tables.KeepStatistics(t.Context(), toKeep(second, report, 1, 2))
			require.NoError(t, err)
			kept := keptIn(t, c, second)
			require.Equal(t, []string{"later-v9 ", "apache-datasketches-theta-v1 7", "apache-datasketches-theta-v1 100", "penstock-stats-v1 "}, describedBlobs(kept))
			for i, b := range others {
				require.Equal(t, b.Content, kept[i].Content)
				require.Equal(t, b.CompressionCodec, kept[i].CompressionCodec)
			}
			require.Equal(t, []int{2}, kept[2].Fields)
			require.Equal(t, report, string(kept[3].Content))
			require.Equal(t, map[string]string{"created-by": "penstock", "rows": "10", "time": "2026-09-21T14:13:20Z"}, kept[3].Properties)
		}
		text, err := os.ReadFile(icebergtest.Local(t, statisticsPath(t, c, second)))
		require.NoError(t, err)
		require.Contains(t, string(text), `"x":1`, "members that are not known stay")
		require.Equal(t, []string{"a", "b"}, c.Files(t, ""))
		require.Len(t, keptIn(t, c, first), 3, "those of other snapshots stay")
		c.Append(t, "third", "c")
		require.Len(t, keptIn(t, c, second), 4)
	})
}

func statisticsPath(t *testing.T, c *icebergtest.Changing, snapshot int64) string {
	t.Helper()
	for f := range c.Load(t, icebergtest.Events).Metadata().Statistics() {
		if f.SnapshotID == snapshot {
			return f.StatisticsPath
		}
	}
	return ""
}

// spec: stats-14, stats-15
func TestStatisticsThatCannotBeKept(t *testing.T) {
	c := icebergtest.NewWriter(t).Changes(t)
	c.Bucketed(t, "2")
	at := c.Append(t, "first", "a").Snapshot
	keep := func(change func(*commit.SnapshotStatistics)) error {
		s := toKeep(at, "one", 1)
		change(&s)
		_, err := c.Tables.KeepStatistics(t.Context(), s)
		return err
	}
	icebergtest.IsKind(t, keep(func(s *commit.SnapshotStatistics) { s.Snapshot = 5 }), fault.Expired, "snapshot 5")
	icebergtest.IsKind(t, keep(func(s *commit.SnapshotStatistics) { s.UUID = "another" }), fault.Expired, "another")
	require.ErrorContains(t, keep(func(s *commit.SnapshotStatistics) { s.Sketches[0].Fields = nil }), "a sketch is of 0 columns")
	_, err := c.Another(t, func(o *icebergcat.Options) { o.WriteNamespaces = nil }).KeepStatistics(t.Context(), toKeep(at, "one", 1))
	icebergtest.IsKind(t, err, fault.Forbidden, "may not be changed")
	foreign(t, c, at)
	before := c.Load(t, icebergtest.Events).MetadataLocation()
	require.NoError(t, os.WriteFile(c.Dir+"/foreign.stats", []byte("damaged"), 0o600))
	icebergtest.IsKind(t, keep(func(*commit.SnapshotStatistics) {}), fault.Corrupt, "whose blobs of other programs must stay")
	require.NoError(t, os.Remove(c.Dir+"/foreign.stats"))
	icebergtest.IsKind(t, keep(func(*commit.SnapshotStatistics) {}), fault.Corrupt, "whose blobs of other programs must stay")
	require.Equal(t, before, c.Load(t, icebergtest.Events).MetadataLocation())
	require.Empty(t, c.Orphans(t))
}

// Whatever happens during a call, the metadata names a complete statistics file, and the files of attempts that failed are
// removed, or have names that the search for orphan files knows.
//
// spec: stats-14
func TestAccidentsWhileStatisticsAreKept(t *testing.T) {
	eachFast(t, func(t *testing.T, c *icebergtest.Changing) {
		c.Bucketed(t, "2")
		at := c.Append(t, "first", "a").Snapshot
		for _, what := range []accident{fails, answerLost, deathBefore, deathAfter} {
			for nth := 1; ; nth++ {
				a := &accidents{nth: nth, what: what}
				location, err := accidental(t, c, a).KeepStatistics(context.WithoutCancel(t.Context()), toKeep(at, string(what), 1))
				calm(c)
				if err == nil {
					require.Equal(t, location, statisticsPath(t, c, at))
				}
				if statisticsPath(t, c, at) != "" {
					require.NotEmpty(t, keptIn(t, c, at))
				}
				for _, name := range c.Orphans(t) {
					require.True(t, commit.Owned(name), name)
					require.NoError(t, os.Remove(name))
				}
				_, err = c.Tables.KeepStatistics(t.Context(), toKeep(at, "again", 1))
				require.NoError(t, err)
				require.Len(t, keptIn(t, c, at), 2)
				if a.calls < nth {
					break
				}
			}
		}
	})
}

// PyIceberg reads the statistics file, and a parser of sketches in Python reads the sketch.
//
// spec: stats-14
func TestPyIcebergReadsStatistics(t *testing.T) {
	python := os.Getenv("PENSTOCK_PYTHON")
	if python == "" {
		require.Empty(t, os.Getenv("CI"), "CI must set PENSTOCK_PYTHON; make test-go does")
		t.Skip("PENSTOCK_PYTHON names no Python to run PyIceberg with; make test-go sets it")
	}
	c := icebergtest.NewWriter(t).Changes(t)
	require.NoError(t, c.Tables.Create(t.Context(), commit.NewTable{Table: icebergtest.Events, Columns: []commit.NewColumn{{ID: 1, Name: "id", Type: "long"}}}))
	made, err := c.Tables.Commit(t.Context(), commit.Change{Table: icebergtest.Events, Add: []commit.DataFile{scores(t, c, "one", 1)}})
	require.NoError(t, err)
	_, err = c.Tables.KeepStatistics(t.Context(), toKeep(made.Snapshot, `{"rows": 10}`, 1))
	require.NoError(t, err)
	out, err := exec.CommandContext(t.Context(), python, "testdata/read_statistics.py", c.Dir).CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Equal(t, "snapshot is current: True; theta of [1]: ndv 100, 100 hashes, theta 1.0; report of [1]: {'rows': 10}\n", string(out))
}
