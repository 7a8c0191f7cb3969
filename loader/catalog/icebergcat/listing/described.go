package listing

import (
	"context"
	"slices"

	"github.com/apache/iceberg-go"
	"golang.org/x/sync/errgroup"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/catalog/commit"
	"github.com/penstock/penstock/loader/catalog/icebergcat/metadata"
	"github.com/penstock/penstock/loader/catalog/icebergcat/metafile"
)

// DataFiles returns the data files of a pinned table for which wanted returns true, as the table's
// manifests describe them, in no particular order. They have all statistics of the columns that a
// schema of the table has. Their sequence numbers and first row ids are those that a new file with
// the same rows must get, so that the rows keep their age and ids.
func (f *FileLister) DataFiles(ctx context.Context, t *catalog.Table, wanted func(location string) bool) ([]commit.DataFile, error) {
	held := f.source.Hold(t.Name)
	defer held.Release()
	meta, err := f.source.Load(ctx, t.Name, held)
	if err != nil {
		return nil, err
	}
	l, err := NewListing(f.source, meta, t.Pin, nil, nil)
	if err != nil || l.Snapshot == nil {
		return nil, err
	}
	l.Held = held
	manifests, err := l.Current(ctx)
	if err != nil {
		return nil, err
	}
	own, err := ownColumns(meta)
	if err != nil {
		return nil, err
	}
	of := make([][]commit.DataFile, len(manifests))
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(manifestReaders)
	for i, m := range manifests {
		group.Go(func() (err error) {
			of[i], err = l.described(groupCtx, m, own, wanted)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		if fault.KindOf(err) == fault.Corrupt {
			err = l.expiredMeanwhile(ctx, t, err)
		}
		return nil, err
	}
	return slices.Concat(of...), nil
}

// described returns the wanted files of a manifest.
func (l *Listing) described(ctx context.Context, m iceberg.ManifestFile, own map[int]bool, wanted func(location string) bool) ([]commit.DataFile, error) {
	if m.ManifestContent() == iceberg.ManifestContentDeletes || !m.HasAddedFiles() && !m.HasExistingFiles() {
		return nil, nil
	}
	held := l.source.Hold(l.meta.Name)
	defer held.Release()
	opened, err := l.Open(ctx, m, held)
	if err != nil {
		return nil, err
	}
	entries, err := opened.Entries(Statistics)
	if err != nil {
		return nil, err
	}
	var out []commit.DataFile
	for _, e := range entries.Live {
		if !wanted(e.DataFile().FilePath()) {
			continue
		}
		one, err := l.describe(e, entries, own)
		if err != nil {
			return nil, opened.orForget(err)
		}
		out = append(out, one)
	}
	return out, nil
}

// describe converts an entry of a manifest, with the statistics of the columns in own.
func (l *Listing) describe(e iceberg.ManifestEntry, in *ManifestEntries, own map[int]bool) (commit.DataFile, error) {
	f, err := l.file(e, in)
	if err != nil {
		return commit.DataFile{}, err
	}
	d := e.DataFile()
	return commit.DataFile{
		Location: f.Location, Spec: f.Spec, Partition: f.Partition, Rows: f.Rows, Bytes: f.Bytes, SortOrder: f.SortOrder,
		Splits: d.SplitOffsets(), Sequence: f.Sequence, Snapshot: f.Snapshot, FirstRow: f.FirstRow,
		ColumnMetrics: commit.ColumnMetrics{
			ColumnBytes: only(d.ColumnSizes(), own), Values: only(d.ValueCounts(), own), Nulls: only(d.NullValueCounts(), own), NaNs: only(d.NaNValueCounts(), own),
			Lower: only(d.LowerBoundValues(), own), Upper: only(d.UpperBoundValues(), own),
		},
	}, nil
}

// ownColumns returns the field ids of all schemas of the table. Files may have statistics of other
// columns: columns of row lineage, which Spark stores when it rewrites rows, and columns whose
// schemas were removed from the table.
func ownColumns(m *metadata.Loaded) (map[int]bool, error) {
	out := map[int]bool{}
	for _, s := range m.Schemas() {
		fields, err := iceberg.IndexByID(s)
		if err != nil {
			return nil, metafile.Corrupt(m.Name, m.File.Location, "schema %d of table %s cannot be read: %w", s.ID, m.Name, err)
		}
		for id := range fields {
			out[id] = true
		}
	}
	return out, nil
}

// only returns the entries of the map whose keys are in columns.
func only[V any](of map[int]V, columns map[int]bool) map[int]V {
	out := make(map[int]V, len(of))
	for id, v := range of {
		if columns[id] {
			out[id] = v
		}
	}
	return out
}
