package icebergcat

import (
	"context"
	"slices"

	"github.com/apache/iceberg-go"
	"golang.org/x/sync/errgroup"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/catalog/commit"
	"github.com/penstock/penstock/loader/catalog/icebergcat/metafile"
)

// DataFiles returns data files of a pinned table as its manifests describe them, with all statistics:
// those whose location wanted returns true for, in no order. Each has the sequence number and the
// first row id that a file with the same rows keeps.
func (c *Catalog) DataFiles(ctx context.Context, t *catalog.Table, wanted func(location string) bool) ([]commit.DataFile, error) {
	held := c.hold(t.Name)
	defer held.Release()
	meta, err := c.load(ctx, t.Name, held)
	if err != nil {
		return nil, err
	}
	l, err := c.newListing(meta, t.Pin, nil, nil)
	if err != nil || l.snapshot == nil {
		return nil, err
	}
	l.held, l.sizes = held, []int{} // manifests are decoded with all of their statistics
	manifests, err := l.manifests(ctx)
	if err != nil {
		return nil, err
	}
	of := make([][]commit.DataFile, len(manifests))
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(manifestReaders)
	for i, m := range manifests {
		group.Go(func() (err error) {
			of[i], err = l.described(groupCtx, m, wanted)
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
func (l *listing) described(ctx context.Context, m iceberg.ManifestFile, wanted func(location string) bool) ([]commit.DataFile, error) {
	if m.ManifestContent() == iceberg.ManifestContentDeletes || !m.HasAddedFiles() && !m.HasExistingFiles() {
		return nil, nil
	}
	if len(m.KeyMetadata()) > 0 {
		return nil, l.encrypted(m.FilePath())
	}
	held := l.catalog.hold(l.meta.name)
	defer held.Release()
	file := l.catalog.allow(metafile.Subject{What: "manifest", Table: l.meta.name, Location: m.FilePath()}, held)
	content, err := l.manifestFile(ctx, file, m.Length())
	if err != nil {
		return nil, err
	}
	entries, err := l.entries(m, file, content)
	if err != nil {
		return nil, l.catalog.orForget(l.keyOf(m.FilePath(), m.Length()), err)
	}
	var out []commit.DataFile
	for _, e := range entries.live {
		if !wanted(e.DataFile().FilePath()) {
			continue
		}
		one, err := l.describe(e, entries)
		if err != nil {
			return nil, l.catalog.orForget(l.keyOf(m.FilePath(), m.Length()), err)
		}
		out = append(out, one)
	}
	return out, nil
}

// describe converts an entry.
func (l *listing) describe(e iceberg.ManifestEntry, in *manifestEntries) (commit.DataFile, error) {
	f, err := l.file(e, in)
	if err != nil {
		return commit.DataFile{}, err
	}
	d := e.DataFile()
	return commit.DataFile{
		Location: f.Location, Spec: f.Spec, Partition: f.Partition, Rows: f.Rows, Bytes: f.Bytes, SortOrder: f.SortOrder,
		Splits: d.SplitOffsets(), Sequence: f.Sequence, FirstRow: f.FirstRow,
		ColumnMetrics: commit.ColumnMetrics{
			ColumnBytes: d.ColumnSizes(), Values: d.ValueCounts(), Nulls: d.NullValueCounts(), NaNs: d.NaNValueCounts(),
			Lower: d.LowerBoundValues(), Upper: d.UpperBoundValues(),
		},
	}, nil
}
