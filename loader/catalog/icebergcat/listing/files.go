package listing

import (
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
	"github.com/penstock/penstock/loader/catalog/icebergcat/metadata"
	"github.com/penstock/penstock/loader/catalog/icebergcat/metafile"
	"github.com/penstock/penstock/loader/dataset"
)

// Numbers of bytes that are charged to the memory budget for listed files.
const (
	perFile   = 800 // for each file
	perColumn = 180 // for each column of it whose value range is returned
)

// manifestReaders is the maximum number of manifests that a listing reads concurrently.
const manifestReaders = 4

// Listing has the arguments and the metadata of one call that lists the files of a table. It does
// not change while manifests are read, because they are read concurrently.
type Listing struct {
	*Manifests
	Snapshot *icetable.Snapshot
	Schema   *iceberg.Schema       // the pinned one
	chain    catalog.Chain         // of snapshot
	columns  []iceberg.NestedField // columns to read
	bounds   []iceberg.NestedField // columns whose value ranges are requested
	sizes    []int                 // if not nil, only the stored sizes of these field ids are requested, and files are not listed
	specs    map[int]iceberg.PartitionSpec
	schemas  []*iceberg.Schema   // all schemas of the table
	Held     *budget.Reservation // has the memory that is needed until all files are listed
	commits  *commits            // for Appended; if nil, all files are listed
	mapped   bool                // whether the pin has a name mapping
}

// FileLister lists the files of pinned tables. It is safe for concurrent use.
type FileLister struct{ source *metadata.Source }

// New returns the FileLister of a catalog.
func New(source *metadata.Source) *FileLister { return &FileLister{source: source} }

// Files lists the data files of a pinned table. It returns an error for a table that this version
// cannot read correctly. See the package comment and catalog.Catalog.
func (f *FileLister) Files(ctx context.Context, t *catalog.Table, columns []int, bounds []int) ([]catalog.File, error) {
	held := f.source.Hold(t.Name)
	defer held.Release()
	meta, err := f.source.Load(ctx, t.Name, held)
	if err != nil {
		return nil, err
	}
	l, err := NewListing(f.source, meta, t.Pin, columns, bounds)
	if err != nil || l.Snapshot == nil {
		return nil, err
	}
	l.Held = held
	files, err := l.Files(ctx, t)
	if fault.KindOf(err) == fault.Corrupt {
		return nil, l.expiredMeanwhile(ctx, t, err)
	}
	return files, err
}

// expiredMeanwhile returns the error for a snapshot that could not be read because of err. It loads
// the table again. If the snapshot expired during the call, so that its files may have been
// removed, it returns Expired instead of err.
func (l *Listing) expiredMeanwhile(ctx context.Context, t *catalog.Table, err error) error {
	meta, again := l.source.Load(ctx, t.Name, l.Held)
	if again != nil {
		return err
	}
	if _, _, again = meta.Check(t.Pin); again != nil {
		return again
	}
	if l.commits != nil {
		if _, again = l.commits.after(meta); again != nil {
			return again
		}
	}
	return err
}

// NewListing returns the Listing for a pinned table. The parameter columns has the field ids of the
// columns to read, and bounds has those of the columns whose value ranges are requested. The caller
// sets Held.
func NewListing(source *metadata.Source, meta *metadata.Loaded, pin dataset.TablePin, columns, bounds []int) (*Listing, error) {
	snapshot, schema, err := meta.Check(pin)
	if err != nil {
		return nil, err
	}
	l := &Listing{
		Manifests: newManifests(source, meta), Snapshot: snapshot, Schema: schema, schemas: meta.Schemas(),
		chain: catalog.NewChain(pin.Snapshot, meta.Parent),
		specs: make(map[int]iceberg.PartitionSpec), mapped: pin.Mapping != dataset.NoMapping,
	}
	for _, spec := range meta.PartitionSpecs() {
		l.specs[spec.ID()] = spec
	}
	if l.columns, err = meta.Fields(schema, columns); err != nil {
		return nil, err
	}
	if l.bounds, err = meta.Fields(schema, bounds); err != nil {
		return nil, err
	}
	for _, f := range l.columns {
		if column.TooDeep(f.Type) {
			return nil, fault.New(fault.Invalid, "column %q of table %s has more than %d levels of nested types, which is not supported by this version",
				f.Name, meta.Name, column.MaxDepth).In(meta.Name, "").WithRemedy("leave column %q out", f.Name)
		}
		if !column.Served(f.Type) {
			return nil, fault.New(fault.Invalid, "column %q of table %s is of type %s, which is not supported by this version",
				f.Name, meta.Name, meta.TypeName(f)).In(meta.Name, "").WithRemedy("leave column %q out", f.Name)
		}
	}
	return l, meta.Servable()
}

// Files lists the files of the snapshot.
func (l *Listing) Files(ctx context.Context, t *catalog.Table) ([]catalog.File, error) {
	all, err := l.Read(ctx)
	if err != nil {
		return nil, err
	}
	catalog.Arrange(all.Data)
	return all.Data, catalog.Delete(t, all.Data, all.Named())
}

// Read reads the manifests of the snapshot.
func (l *Listing) Read(ctx context.Context) (Found, error) {
	manifests, err := l.Current(ctx)
	if err != nil {
		return Found{}, err
	}
	of := make([]Found, len(manifests))
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
		// Return the error of the first manifest in order, not the error that occurred first, so
		// that errors are reproducible.
		return Found{}, failed[slices.IndexFunc(failed, func(err error) bool { return err != nil })]
	}
	all := Found{sizes: map[string]int64{}}
	for _, f := range of {
		all.Data, all.deletes = append(all.Data, f.Data...), append(all.deletes, f.deletes...)
		maps.Copy(all.sizes, f.sizes)
	}
	return all, nil
}

// Found has the files that manifests list.
type Found struct {
	Data    []catalog.File
	deletes []deleteFile
	sizes   map[string]int64 // by location
}

// Current reads the snapshot's manifest list.
func (l *Listing) Current(ctx context.Context) ([]iceberg.ManifestFile, error) {
	return l.list(ctx, l.Snapshot, l.Held)
}

// manifest reads one manifest and converts its files. It returns an error if this version cannot
// read one of them correctly.
func (l *Listing) manifest(ctx context.Context, m iceberg.ManifestFile) (Found, error) {
	if !m.HasAddedFiles() && !m.HasExistingFiles() || l.commits.passes(m) {
		return Found{}, nil // the manifest has no files to list
	}
	if l.sizes != nil && m.ManifestContent() == iceberg.ManifestContentDeletes {
		return Found{}, nil
	}
	held := l.source.Hold(l.meta.Name)
	defer held.Release()
	opened, err := l.Open(ctx, m, held)
	if err != nil {
		return Found{}, err
	}
	entries, err := opened.Entries(l.detail(m))
	if err != nil {
		return Found{}, err
	}
	entries.Live = l.commits.keep(m, entries.Live)
	listed := opened.file
	listed.Held = l.Held // the files stay until all are listed
	if err := listed.Charge((perFile + perColumn*int64(len(l.bounds))) * int64(len(entries.Live))); err != nil {
		return Found{}, err
	}
	if m.ManifestContent() == iceberg.ManifestContentDeletes {
		return l.deletes(entries)
	}
	if l.sizes != nil {
		sizes := map[string]int64{}
		for _, e := range entries.Live {
			if size, ok := l.sizeOf(e.DataFile()); ok {
				sizes[e.DataFile().FilePath()] = size
			}
		}
		return Found{sizes: sizes}, nil
	}
	files := make([]catalog.File, len(entries.Live))
	for i, e := range entries.Live {
		if files[i], err = l.file(e, entries); err != nil {
			return Found{}, opened.orForget(err)
		}
	}
	return Found{Data: files}, nil
}

// file converts an entry of a manifest. It returns an error if this version cannot read the file
// correctly.
func (l *Listing) file(e iceberg.ManifestEntry, in *ManifestEntries) (catalog.File, error) {
	d := e.DataFile()
	location := d.FilePath()
	if !strings.EqualFold(string(d.FileFormat()), string(iceberg.ParquetFile)) {
		return catalog.File{}, fault.New(fault.Invalid, "file %s of table %s is of format %s: only Parquet is supported by this version",
			location, l.meta.Name, d.FileFormat()).In(l.meta.Name, location).WithRemedy("rewrite the table's files as Parquet")
	}
	if len(d.KeyMetadata()) > 0 {
		return catalog.File{}, l.encrypted(location)
	}
	if err := l.meta.May("file", location); err != nil {
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
	if l.meta.HasLineage() {
		out.FirstRow = d.FirstRowID()
	}
	if id := d.SortOrderID(); id != nil {
		out.SortOrder = *id
	}
	if out.Sequence < 0 || out.Bytes < 0 || out.Rows < 0 {
		return out, metafile.Corrupt(l.meta.Name, in.location, "manifest %s gives file %s sequence number %d, %d bytes and %d rows",
			in.location, location, out.Sequence, out.Bytes, out.Rows)
	}
	if first := out.FirstRow; first != nil && (*first < 0 || *first > math.MaxInt64-out.Rows) {
		return out, metafile.Corrupt(l.meta.Name, in.location, "manifest %s gives file %s row ids from %d on", in.location, location, *first)
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

// detail returns how much of a manifest's entries the listing needs. For delete files, it needs the
// value ranges, which tell to which data file they apply.
func (l *Listing) detail(m iceberg.ManifestFile) Detail {
	switch {
	case l.sizes != nil:
		return Statistics
	case len(l.bounds) > 0 || m.ManifestContent() == iceberg.ManifestContentDeletes:
		return Ranges
	}
	return Plain
}
