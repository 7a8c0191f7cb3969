package icebergcat

import (
	"cmp"
	"context"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/apache/iceberg-go"
	icetable "github.com/apache/iceberg-go/table"
	"golang.org/x/sync/errgroup"

	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/catalog/icebergcat/column"
	"github.com/penstock/penstock/loader/catalog/icebergcat/metafile"
	"github.com/penstock/penstock/loader/dataset"
)

// Bytes charged for what is listed.
const (
	perFile   = 800 // for each file
	perColumn = 180 // for each column of it whose value range is returned
)

// manifestReaders bounds the manifests that a listing reads concurrently.
const manifestReaders = 4

// The table properties that are read.
const (
	nameMappingProperty   = "schema.name-mapping.default"
	encryptionKeyProperty = "encryption.key-id"
)

// listing is one call of Files. It is immutable, because manifests are read concurrently.
type listing struct {
	*Manifests
	snapshot *icetable.Snapshot
	schema   *iceberg.Schema       // the pinned one
	chain    catalog.Chain         // of snapshot
	columns  []iceberg.NestedField // to read
	bounds   []iceberg.NestedField // whose ranges are requested
	sizes    []int                 // field ids whose stored size is requested, and nothing else; nil: files are listed
	specs    map[int]iceberg.PartitionSpec
	schemas  []*iceberg.Schema   // all that the table has
	held     *budget.Reservation // for memory that is needed until all files are listed
	commits  *commits            // of Appended; nil lists all files
	mapped   bool                // the pin has a name mapping
}

// FileLister lists the files of pinned tables. It is safe for concurrent use.
type FileLister struct{ source *Source }

// newFileLister returns the FileLister of a catalog.
func newFileLister(source *Source) *FileLister { return &FileLister{source: source} }

// Files lists the data files of a pinned table, or refuses the table. See the package
// comment and catalog.Catalog.
func (f *FileLister) Files(ctx context.Context, t *catalog.Table, columns []int, bounds []int) ([]catalog.File, error) {
	held := f.source.hold(t.Name)
	defer held.Release()
	meta, err := f.source.load(ctx, t.Name, held)
	if err != nil {
		return nil, err
	}
	l, err := newListing(f.source, meta, t.Pin, columns, bounds)
	if err != nil || l.snapshot == nil {
		return nil, err
	}
	l.held = held
	files, err := l.files(ctx, t)
	if fault.KindOf(err) == fault.Corrupt {
		return nil, l.expiredMeanwhile(ctx, t, err)
	}
	return files, err
}

// expiredMeanwhile loads a table again whose snapshot could not be read. If the snapshot
// expired during the call, and its files were removed, it returns that error instead of
// err.
func (l *listing) expiredMeanwhile(ctx context.Context, t *catalog.Table, err error) error {
	meta, again := l.source.load(ctx, t.Name, l.held)
	if again != nil {
		return err
	}
	if _, _, again = meta.check(t.Pin); again != nil {
		return again
	}
	if l.commits != nil {
		if _, again = l.commits.after(meta); again != nil {
			return again
		}
	}
	return err
}

func newListing(source *Source, meta *loaded, pin dataset.TablePin, columns, bounds []int) (*listing, error) {
	snapshot, schema, err := meta.check(pin)
	if err != nil {
		return nil, err
	}
	l := &listing{
		Manifests: newManifests(source, meta), snapshot: snapshot, schema: schema, schemas: meta.Schemas(),
		chain: catalog.NewChain(pin.Snapshot, meta.parent),
		specs: make(map[int]iceberg.PartitionSpec), mapped: pin.Mapping != dataset.NoMapping,
	}
	for _, spec := range meta.PartitionSpecs() {
		l.specs[spec.ID()] = spec
	}
	if l.columns, err = meta.fields(schema, columns); err != nil {
		return nil, err
	}
	if l.bounds, err = meta.fields(schema, bounds); err != nil {
		return nil, err
	}
	for _, f := range l.columns {
		if column.TooDeep(f.Type) {
			return nil, fault.New(fault.Invalid, "column %q of table %s has more than %d levels of nested types, which is not served by this version",
				f.Name, meta.name, column.MaxDepth).In(meta.name, "").WithRemedy("leave column %q out", f.Name)
		}
		if !column.Served(f.Type) {
			return nil, fault.New(fault.Invalid, "column %q of table %s is of type %s, which is not served by this version",
				f.Name, meta.name, meta.typeName(f)).In(meta.name, "").WithRemedy("leave column %q out", f.Name)
		}
	}
	return l, meta.servable()
}

// parent returns the parent of a snapshot or 0, and false if the snapshot has expired.
func (m *loaded) parent(id int64) (int64, bool) {
	s := m.SnapshotByID(id)
	if s == nil || s.ParentSnapshotID == nil {
		return 0, s != nil
	}
	return *s.ParentSnapshotID, true
}

// fields returns the columns with some field ids. Nested columns are named by their paths.
func (m *loaded) fields(schema *iceberg.Schema, ids []int) ([]iceberg.NestedField, error) {
	all := column.All(schema)
	if m.hasLineage() {
		for _, f := range catalog.LineageFields() {
			all = append(all, iceberg.NestedField{ID: f.ID, Name: f.Name, Type: iceberg.PrimitiveTypes.Int64})
		}
	}
	index := make(map[int]int, len(all)) // of each field id in all; tables may have 100,000 columns
	for i, f := range all {
		index[f.ID] = i
	}
	out := make([]iceberg.NestedField, len(ids))
	for i, id := range ids {
		at, found := index[id]
		if !found {
			return nil, fault.New(fault.Invalid, "table %s has no column with field id %d", m.name, id).In(m.name, "")
		}
		out[i] = all[at]
	}
	return out, nil
}

// servable returns an error if the table's properties do not allow reading it.
func (m *loaded) servable() error {
	properties := m.Properties()
	if _, ok := properties[encryptionKeyProperty]; ok {
		return m.unserved("it is encrypted (property "+encryptionKeyProperty+")", "read a copy that is not encrypted")
	}
	return nil
}

// files lists the files of the snapshot.
func (l *listing) files(ctx context.Context, t *catalog.Table) ([]catalog.File, error) {
	all, err := l.read(ctx)
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(all.data, func(a, b catalog.File) int {
		return cmp.Or(cmp.Compare(a.Sequence, b.Sequence), strings.Compare(a.Location, b.Location))
	})
	return all.data, catalog.Delete(t, all.data, all.named())
}

// read reads the manifests of the snapshot.
func (l *listing) read(ctx context.Context) (found, error) {
	manifests, err := l.manifests(ctx)
	if err != nil {
		return found{}, err
	}
	of := make([]found, len(manifests))
	failed := make([]error, len(manifests))
	var group errgroup.Group
	group.SetLimit(manifestReaders)
	for i, m := range manifests {
		group.Go(func() error {
			of[i], failed[i] = l.manifest(ctx, m)
			return failed[i]
		})
	}
	if group.Wait() != nil {
		// The first in order, not in time, so that errors are reproducible.
		return found{}, failed[slices.IndexFunc(failed, func(err error) bool { return err != nil })]
	}
	all := found{sizes: map[string]int64{}}
	for _, f := range of {
		all.data, all.deletes = append(all.data, f.data...), append(all.deletes, f.deletes...)
		maps.Copy(all.sizes, f.sizes)
	}
	return all, nil
}

// found has the files in manifests.
type found struct {
	data    []catalog.File
	deletes []deleteFile
	sizes   map[string]int64 // by location
}

// manifests reads the snapshot's manifest list.
func (l *listing) manifests(ctx context.Context) ([]iceberg.ManifestFile, error) {
	return l.list(ctx, l.snapshot, l.held)
}

// manifest reads one manifest and converts its files, or refuses one.
func (l *listing) manifest(ctx context.Context, m iceberg.ManifestFile) (found, error) {
	if !m.HasAddedFiles() && !m.HasExistingFiles() || l.commits.passes(m) {
		return found{}, nil // nothing in it is listed
	}
	if l.sizes != nil && m.ManifestContent() == iceberg.ManifestContentDeletes {
		return found{}, nil
	}
	held := l.source.hold(l.meta.name)
	defer held.Release()
	opened, err := l.open(ctx, m, held)
	if err != nil {
		return found{}, err
	}
	entries, err := opened.entries(l.detail(m))
	if err != nil {
		return found{}, err
	}
	entries.live = l.commits.keep(m, entries.live)
	listed := opened.file
	listed.Held = l.held // the files stay until all are listed
	if err := listed.Charge((perFile + perColumn*int64(len(l.bounds))) * int64(len(entries.live))); err != nil {
		return found{}, err
	}
	if m.ManifestContent() == iceberg.ManifestContentDeletes {
		return l.deletes(entries)
	}
	if l.sizes != nil {
		sizes := map[string]int64{}
		for _, e := range entries.live {
			if size, ok := l.sizeOf(e.DataFile()); ok {
				sizes[e.DataFile().FilePath()] = size
			}
		}
		return found{sizes: sizes}, nil
	}
	files := make([]catalog.File, len(entries.live))
	for i, e := range entries.live {
		if files[i], err = l.file(e, entries); err != nil {
			return found{}, opened.orForget(err)
		}
	}
	return found{data: files}, nil
}

// file converts an entry, or refuses its file.
func (l *listing) file(e iceberg.ManifestEntry, in *manifestEntries) (catalog.File, error) {
	d := e.DataFile()
	location := d.FilePath()
	if !strings.EqualFold(string(d.FileFormat()), string(iceberg.ParquetFile)) {
		return catalog.File{}, fault.New(fault.Invalid, "file %s of table %s is of format %s: only Parquet is served by this version",
			location, l.meta.name, d.FileFormat()).In(l.meta.name, location).WithRemedy("rewrite the table's files as Parquet")
	}
	if len(d.KeyMetadata()) > 0 {
		return catalog.File{}, l.encrypted(location)
	}
	if err := l.meta.may("file", location); err != nil {
		return catalog.File{}, err
	}
	if err := l.unchanged(e, in); err != nil {
		return catalog.File{}, err
	}
	out := catalog.File{
		Location: location, Bytes: d.FileSizeBytes(), Rows: d.Count(), Spec: int(d.SpecID()),
		Sequence: e.SequenceNum(),
	}
	if out.Sequence == 0 {
		out.Snapshot, out.Rank = e.SnapshotID(), l.chain.Rank(e.SnapshotID())
	}
	if l.meta.hasLineage() {
		out.FirstRow = d.FirstRowID()
	}
	if id := d.SortOrderID(); id != nil {
		out.SortOrder = *id
	}
	if out.Sequence < 0 || out.Bytes < 0 || out.Rows < 0 {
		return out, metafile.Corrupt(l.meta.name, in.location, "manifest %s gives file %s sequence number %d, %d bytes and %d rows",
			in.location, location, out.Sequence, out.Bytes, out.Rows)
	}
	if first := out.FirstRow; first != nil && (*first < 0 || *first > math.MaxInt64-out.Rows) {
		return out, metafile.Corrupt(l.meta.name, in.location, "manifest %s gives file %s row ids from %d on", in.location, location, *first)
	}
	values := d.Partition()
	var err error
	if out.Partition, err = l.partition(values, out, in.location); err != nil {
		return out, err
	}
	if len(l.bounds) > 0 {
		out.Ranges = l.ranges(d, values)
	}
	return out, nil
}

// detail returns what the listing needs of a manifest. The value ranges of delete files tell which data file they apply to.
func (l *listing) detail(m iceberg.ManifestFile) detail {
	switch {
	case l.sizes != nil:
		return statistics
	case len(l.bounds) > 0 || m.ManifestContent() == iceberg.ManifestContentDeletes:
		return ranges
	}
	return plain
}
