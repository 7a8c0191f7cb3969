package listing_test

import (
	"bytes"
	"context"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/apache/iceberg-go"
	icetable "github.com/apache/iceberg-go/table"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/store"
	"github.com/penstock/penstock/internal/store/errstore"
	"github.com/penstock/penstock/loader/catalog/icebergcat"
	"github.com/penstock/penstock/loader/catalog/icebergcat/icebergtest"
	"github.com/penstock/penstock/loader/dataset"
)

// cuts are the sizes to try a file at: all over it, and behind each of the
// marks (the last 16 bytes) that end the header and the blocks of Avro.
func cuts(content []byte) []int {
	var out []int
	for size := 0; size < len(content); size += max(1, len(content)/30) {
		out = append(out, size)
	}
	mark := content[len(content)-16:]
	for at := 0; ; {
		i := bytes.Index(content[at:], mark)
		at += i + len(mark)
		if i < 0 || at >= len(content) {
			return out
		}
		out = append(out, at)
	}
}

// A metadata file that was truncated anywhere fails the listing, with its name; a snapshot
// never looks smaller.
func TestTruncatedFilesAreCorrupt(t *testing.T) {
	w := icebergtest.NewWriter(t)
	listLocation, manifest := icebergtest.TwoManifests(t, w)
	metadata := w.Load(t, icebergtest.Events).MetadataLocation()
	faulty := errstore.New(store.Local{})
	o := w.Options()
	o.Store = faulty
	reader, err := icebergcat.Open(t.Context(), o)
	require.NoError(t, err)
	table, err := reader.Table(t.Context(), icebergtest.Events, dataset.Ref{})
	require.NoError(t, err)
	want, err := reader.Files(t.Context(), table, []int{1}, nil)
	require.NoError(t, err)
	require.Len(t, want, 2)

	for name, location := range map[string]string{"metadata": metadata, "manifest list": listLocation, "manifest": manifest} {
		t.Run(name, func(t *testing.T) {
			content, err := os.ReadFile(icebergtest.Local(t, location))
			require.NoError(t, err)
			refused := 0
			defer func() { require.Greater(t, refused, 3) }()
			for _, size := range cuts(content) {
				faulty.Set(errstore.Rule{Location: location, Call: errstore.Open, Action: errstore.Truncate(int64(size))})
				files, err := reader.Files(t.Context(), table, []int{1}, nil)
				if err == nil {
					require.Equal(t, want, files, "cut at %d of %d", size, len(content))
					continue
				}
				refused++
				require.Equal(t, fault.Corrupt.String(), fault.KindOf(err).String(), "cut at %d: %v", size, err)
				require.Equal(t, location, fault.As(err).File)
				require.Equal(t, icebergtest.Events, fault.As(err).Table)
			}
		})
	}
	faulty.Set()
	require.Zero(t, faulty.Counts().Open, "every file that was opened is closed")
	files, err := reader.Files(t.Context(), table, []int{1}, nil)
	require.NoError(t, err)
	require.Len(t, files, 2)
}

func TestMissingFilesAreCorrupt(t *testing.T) {
	for _, which := range []string{"metadata", "manifest list", "manifest"} {
		t.Run(which, func(t *testing.T) {
			w := icebergtest.NewWriter(t)
			location, manifest := icebergtest.TwoManifests(t, w)
			switch which {
			case "metadata":
				location = w.Load(t, icebergtest.Events).MetadataLocation()
			case "manifest":
				location = manifest
			}
			reader := w.Open(t)
			table, err := reader.Table(t.Context(), icebergtest.Events, dataset.Ref{})
			require.NoError(t, err)
			require.NoError(t, os.Remove(icebergtest.Local(t, location)))
			_, err = reader.Files(t.Context(), table, []int{1}, nil)
			require.EqualError(t, err, "read table ml.events: file "+location+" is missing; restore the file, or read a snapshot that does not need it")
			e := fault.As(err)
			require.Equal(t, fault.Corrupt.String(), e.Kind.String())
			require.Equal(t, icebergtest.Events, e.Table)
			require.Equal(t, location, e.File)
		})
	}
}

func TestStorageFailures(t *testing.T) {
	w := icebergtest.NewWriter(t)
	listLocation, manifest := icebergtest.TwoManifests(t, w)
	down := fault.New(fault.Unavailable, "storage is down")
	faulty := errstore.New(store.Local{})
	o := w.Options()
	o.Store = faulty
	reader, err := icebergcat.Open(t.Context(), o)
	require.NoError(t, err)
	table, err := reader.Table(t.Context(), icebergtest.Events, dataset.Ref{})
	require.NoError(t, err)
	for _, location := range []string{w.Load(t, icebergtest.Events).MetadataLocation(), listLocation, manifest} {
		for _, call := range []errstore.Call{errstore.Open, errstore.Read} {
			faulty.Set(errstore.Rule{Location: location, Call: call, Action: errstore.Fail(down)})
			_, err := reader.Files(t.Context(), table, []int{1}, nil)
			require.Equal(t, fault.Unavailable.String(), fault.KindOf(err).String())
			require.ErrorIs(t, err, down)
			require.Equal(t, location, fault.As(err).File)
		}
	}
	require.Zero(t, faulty.Counts().Open)
}

// between runs a function once, when a file whose location contains a text is
// about to be opened for the first time.
type between struct {
	store.Store
	text string
	once *sync.Once
	run  func()
}

func (b between) Open(ctx context.Context, location string, size int64) (store.Object, error) {
	if strings.Contains(location, b.text) {
		b.once.Do(b.run)
	}
	return b.Store.Open(ctx, location, size)
}

// A snapshot that expires while it is listed is expired, not corrupt.
func TestExpiryDuringListing(t *testing.T) {
	w := icebergtest.NewWriter(t)
	spec := w.Create(t, icebergtest.Events, icebergtest.IDSchema()).Spec()
	w.Add(t, icebergtest.Events, "", icebergtest.DataFile(t, spec, icebergtest.Location("a"), nil, nil))
	old := w.Load(t, icebergtest.Events).CurrentSnapshot()
	o := w.Options()
	o.Store = between{store.Local{}, old.ManifestList, new(sync.Once), func() {
		w.Add(t, icebergtest.Events, "", icebergtest.DataFile(t, spec, icebergtest.Location("b"), nil, nil))
		w.Expire(t, icebergtest.Events, old.SnapshotID)
		require.NoError(t, os.Remove(icebergtest.Local(t, old.ManifestList)))
	}}
	reader, err := icebergcat.Open(t.Context(), o)
	require.NoError(t, err)
	_, err = icebergtest.List(t, reader, 1)
	require.Equal(t, fault.Expired.String(), fault.KindOf(err).String(), "%v", err)
	files, err := icebergtest.List(t, reader, 1)
	require.NoError(t, err)
	require.Len(t, files, 2)
}

// Writers may remove a metadata file as soon as there is a newer one.
func TestMetadataReplacedDuringLoad(t *testing.T) {
	w := icebergtest.NewWriter(t)
	spec := w.Create(t, icebergtest.Events, icebergtest.IDSchema()).Spec()
	metadata := w.Load(t, icebergtest.Events).MetadataLocation()
	o := w.Options()
	o.Store = between{store.Local{}, metadata, new(sync.Once), func() {
		w.Add(t, icebergtest.Events, "", icebergtest.DataFile(t, spec, icebergtest.Location("a"), nil, nil))
		require.NoError(t, os.Remove(icebergtest.Local(t, metadata)))
	}}
	reader, err := icebergcat.Open(t.Context(), o)
	require.NoError(t, err)
	files, err := icebergtest.List(t, reader, 1)
	require.NoError(t, err)
	require.Len(t, files, 1)
}

// Partition values that cannot be right are errors, and never guessed.
func TestPartitionValuesThatContradictTheSpec(t *testing.T) {
	w := icebergtest.NewWriter(t)
	w.Create(t, icebergtest.Events, iceberg.NewSchema(0, icebergtest.Nested(t, fieldsOf(t))...))
	bucketed := iceberg.NewPartitionSpec(
		iceberg.PartitionField{SourceIDs: []int{1}, FieldID: 1000, Name: "b4", Transform: iceberg.BucketTransform{NumBuckets: 4}})
	w.Update(t, icebergtest.Events, icetable.NewAddPartitionSpecUpdate(&bucketed, false), icetable.NewSetDefaultSpecUpdate(-1))
	spec := w.Load(t, icebergtest.Events).Spec()
	w.Add(t, icebergtest.Events, "", icebergtest.DataFile(t, spec, icebergtest.Location("a"), map[int]any{1000: int32(4)}, nil))
	_, err := icebergtest.List(t, w.Open(t), 1)
	require.ErrorContains(t, err, "gives file /warehouse/a.parquet partition value b4 = 4, a int32")
	require.Equal(t, fault.Corrupt.String(), fault.KindOf(err).String())
}

func TestStorageThatIsNotServed(t *testing.T) {
	w := icebergtest.NewWriter(t)
	w.Create(t, icebergtest.Events, icebergtest.IDSchema())
	path := w.Dir + "/catalog.db"
	icebergtest.Execute(t, path, `UPDATE iceberg_tables SET metadata_location = 's3://bucket/events/metadata/1.metadata.json'`)
	_, err := w.Open(t).Table(t.Context(), icebergtest.Events, dataset.Ref{})
	require.Equal(t, fault.Invalid.String(), fault.KindOf(err).String())
	require.ErrorContains(t, err, `scheme "s3" of s3://bucket/events/metadata/1.metadata.json is not supported by this version`)
	require.Equal(t, icebergtest.Events, fault.As(err).Table)

	icebergtest.Execute(t, path, `UPDATE iceberg_tables SET metadata_location = NULL`)
	_, err = w.Open(t).Table(t.Context(), icebergtest.Events, dataset.Ref{})
	require.Equal(t, fault.Corrupt.String(), fault.KindOf(err).String())
	require.EqualError(t, err, "catalog default has no metadata location for table ml.events (file "+path+")")
}
