package icebergtest

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/iceberg-go"
	icecatalog "github.com/apache/iceberg-go/catalog"
	icetable "github.com/apache/iceberg-go/table"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/store"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/catalog/catalogtest"
	"github.com/penstock/penstock/loader/catalog/icebergcat"
	"github.com/penstock/penstock/loader/catalog/icebergcat/tags"
	"github.com/penstock/penstock/loader/catalog/restcat/restcattest"
	"github.com/penstock/penstock/loader/dataset"
)

func suiteFile(t *testing.T, spec iceberg.PartitionSpec, f catalogtest.File) iceberg.DataFile {
	t.Helper()
	partition := map[int]any{1000: nil, 1001: nil, 1002: nil}
	if v, ok := f.Partition[0].(int64); ok {
		partition[1000] = int32(v)
	}
	if v, ok := f.Partition[1].(int64); ok {
		partition[1001] = iceberg.Date(v)
	}
	if v, ok := f.Partition[2].(string); ok {
		partition[1002] = v
	}
	return DataFile(t, spec, f.Location, partition, func(b *iceberg.DataFileBuilder) {
		b.LowerBoundValues(encode(t, f.Lower)).UpperBoundValues(encode(t, f.Upper)).NullValueCounts(f.Nulls)
	})
}

// SuiteSpec returns the partition spec of the conformance suite's tables.
func SuiteSpec() iceberg.PartitionSpec {
	return iceberg.NewPartitionSpec(
		iceberg.PartitionField{SourceIDs: []int{1}, FieldID: 1000, Name: "id_bucket", Transform: iceberg.BucketTransform{NumBuckets: catalogtest.Buckets}},
		iceberg.PartitionField{SourceIDs: []int{2}, FieldID: 1001, Name: "day", Transform: iceberg.IdentityTransform{}},
		iceberg.PartitionField{SourceIDs: []int{3}, FieldID: 1002, Name: "country", Transform: iceberg.IdentityTransform{}},
	)
}

// Rig returns the Rig with which the conformance suite tests a catalog. The writer makes the
// changes.
func (w *Writer) Rig(c catalog.Catalog) catalogtest.Rig {
	return catalogtest.Rig{
		Catalog: c,
		Create: func(t *testing.T, table string) {
			t.Helper()
			spec := SuiteSpec()
			w.Create(t, table, iceberg.NewSchema(0, Nested(t, catalogtest.Fields())...), icecatalog.WithPartitionSpec(&spec))
		},
		Unsequenced: func(t *testing.T, table string) {
			t.Helper()
			spec := SuiteSpec()
			w.Create(t, table, iceberg.NewSchema(0, Nested(t, catalogtest.Fields())...), icecatalog.WithPartitionSpec(&spec), FormatVersion("1"))
		},
		Sequenced: func(t *testing.T, table string) {
			t.Helper()
			w.Update(t, table, icetable.NewUpgradeFormatVersionUpdate(2))
		},
		Commit: func(t *testing.T, table string, c catalogtest.Commit) int64 {
			t.Helper()
			spec := w.Load(t, table).Spec()
			files := func(in []catalogtest.File) []iceberg.DataFile {
				out := make([]iceberg.DataFile, len(in))
				for i, f := range in {
					out[i] = suiteFile(t, spec, f)
				}
				return out
			}
			if c.Replace {
				return w.rewrite(t, table, c.Branch, files(c.Remove), files(c.Add))
			}
			return w.Replace(t, table, c.Branch, files(c.Remove), files(c.Add))
		},
		SetRef: func(t *testing.T, table string, r catalogtest.Ref) {
			t.Helper()
			kind := icetable.BranchRef
			if r.Tag {
				kind = icetable.TagRef
			}
			w.SetRef(t, table, r.Name, r.Snapshot, kind)
		},
		Alter: func(t *testing.T, table string, fields []catalog.Field) {
			t.Helper()
			w.Alter(t, table, Nested(t, fields)...)
		},
		Expire: w.Expire,
		Drop: func(t *testing.T, table string) {
			t.Helper()
			require.NoError(t, w.DropTable(t.Context(), Ident(table)))
		},
	}
}

// Commits makes a REST server commit to the writer's catalog. Iceberg-go parses each commit and
// checks its requirements.
func (w *Writer) Commits(t *testing.T, s *restcattest.Server) {
	s.Commit = func(namespace []string, name string, wanted []byte) (bool, error) {
		var commit struct {
			Requirements icetable.Requirements `json:"requirements"`
			Updates      icetable.Updates      `json:"updates"`
		}
		if err := json.Unmarshal(wanted, &commit); err != nil {
			return false, err
		}
		id := append(append([]string{}, namespace...), name)
		tbl, err := w.LoadTable(t.Context(), id)
		if err != nil {
			return false, err
		}
		for _, r := range commit.Requirements {
			if r.Validate(tbl.Metadata()) != nil {
				return false, nil
			}
		}
		_, _, err = w.CommitTable(t.Context(), id, commit.Requirements, commit.Updates)
		if err != nil {
			w.Lost.Add(1)
		}
		if errors.Is(err, icetable.ErrCommitFailed) {
			return false, nil // another commit came first
		}
		return err == nil, err
	}
}

// Pinned makes a table with the given number of snapshots, and pins the first snapshot.
func (w *Writer) Pinned(t *testing.T, c catalog.Catalog, snapshots int) *catalog.Table {
	t.Helper()
	spec := w.Create(t, Events, IDSchema()).Spec()
	var first int64
	for i := range snapshots {
		id := w.Add(t, Events, "", DataFile(t, spec, Location(string(rune('a'+i))), nil, nil))
		if i == 0 {
			first = id
		}
	}
	pinned, err := c.Table(t.Context(), Events, dataset.Ref{Snapshot: first})
	require.NoError(t, err)
	return pinned
}

// TagAges returns the maximum age of each of Penstock's tags, by snapshot.
func (w *Writer) TagAges(t *testing.T) map[int64]time.Duration {
	t.Helper()
	out := map[int64]time.Duration{}
	for name, ref := range w.Load(t, Events).Metadata().Refs() {
		if strings.HasPrefix(name, catalog.PinTagPrefix) {
			require.Equal(t, icetable.TagRef, ref.SnapshotRefType)
			require.NotNil(t, ref.MaxRefAgeMs, "it ends by itself")
			out[ref.SnapshotID] = time.Duration(*ref.MaxRefAgeMs) * time.Millisecond
		}
	}
	return out
}

// Committed returns the time of a snapshot.
func (w *Writer) Committed(t *testing.T, snapshot int64) time.Time {
	t.Helper()
	return time.UnixMilli(w.Load(t, Events).Metadata().SnapshotByID(snapshot).TimestampMs)
}

// Until returns the tags.Until with these times.
func Until(least, wanted time.Time) tags.Until {
	return tags.Until{Least: least, Wanted: wanted}
}

// Forgetful is a store that accepts files but loses them: of each file, it keeps only the first
// Keep bytes, or nothing if Keep is negative.
type Forgetful struct {
	store.Local
	Keep int
}

// Create implements store.Writer.
func (f Forgetful) Create(ctx context.Context, location string, content *memory.Buffer) error {
	if f.Keep < 0 {
		return nil
	}
	return f.Local.Create(ctx, location, memory.NewBufferBytes(content.Bytes()[:min(f.Keep, content.Len())]))
}

// Tables returns the function with which a REST server looks up the writer's tables.
func (w *Writer) Tables(t *testing.T) restcattest.Tables {
	return func(namespace []string, name string) (restcattest.Table, bool) {
		tbl, err := w.LoadTable(t.Context(), append(append([]string{}, namespace...), name))
		if err != nil {
			return restcattest.Table{}, false
		}
		text, err := os.ReadFile(Local(t, tbl.MetadataLocation()))
		require.NoError(t, err)
		return restcattest.Table{Location: tbl.MetadataLocation(), Metadata: text}, true
	}
}

// Serve starts a REST server that serves the writer's catalog.
func (w *Writer) Serve(t *testing.T) *restcattest.Server {
	t.Helper()
	s := restcattest.Start(t)
	s.Tables, s.Names = w.Tables(t), []string{Events}
	return s
}

// OpenREST opens the catalog of a REST server. The parameter change may be nil.
func OpenREST(t *testing.T, s *restcattest.Server, change func(*icebergcat.Options)) *icebergcat.Catalog {
	t.Helper()
	o := icebergcat.Options{Name: "lake", Type: "rest", URI: s.URL, Store: store.Local{}, AllowedPrefixes: Anywhere()}
	if change != nil {
		change(&o)
	}
	c, err := icebergcat.Open(t.Context(), o)
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}
