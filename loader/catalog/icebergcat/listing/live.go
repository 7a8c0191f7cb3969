package listing

import (
	"context"

	"github.com/apache/iceberg-go"
	icetable "github.com/apache/iceberg-go/table"

	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/catalog/icebergcat/metadata"
	"github.com/penstock/penstock/loader/catalog/icebergcat/metafile"
)

// liveFiles is one call of LiveFiles.
type liveFiles struct {
	*Manifests
	held *budget.Reservation // has the memory of the metadata and of seen
	each func(location string)
	seen map[string]bool // the manifests that were read, by location
}

// LiveFiles calls each with the location of every file that is reachable from the current metadata
// of a table: the metadata file and all files that it names; and for every snapshot in the
// metadata, its manifest list, its manifests, and their data files and delete files, even those
// that the snapshot removed. The same location may be passed several times. All other texts in the
// metadata, which are not locations, are passed too. If any of these files cannot be read, or the
// table has another uuid, LiveFiles returns an error, and the locations that it passed before are
// incomplete. It reads manifests one after the other.
func (f *FileLister) LiveFiles(ctx context.Context, table, uuid string, each func(location string)) error {
	held := f.source.Hold(table)
	defer held.Release()
	meta, err := f.source.Load(ctx, table, held)
	if err != nil {
		return err
	}
	switch now := meta.TableUUID().String(); {
	case now != uuid:
		return catalog.RecreatedTable(table, uuid, now)
	case meta.File.Location == "":
		return fault.New(fault.Invalid, "the catalog does not tell where the metadata file of table %s is", table).In(table, "").
			WithRemedy("use a catalog that names it, as the specification of REST catalogs wants")
	}
	if err := meta.Servable(); err != nil {
		return err
	}
	each(meta.File.Location)
	if err := metadata.EachText(meta.Text, each); err != nil {
		return metafile.Corrupt(table, meta.File.Location, "metadata of table %s cannot be read: %w", table, err)
	}
	l := &liveFiles{Manifests: newManifests(f.source, meta), held: held, each: each, seen: map[string]bool{}}
	for _, s := range meta.Snapshots() {
		if err := l.snapshot(ctx, &s); err != nil {
			return fault.Op(err, "read snapshot %d of table %s", s.SnapshotID, table)
		}
	}
	return nil
}

// snapshot reads the manifests of a snapshot, except those that it already read for another
// snapshot.
func (l *liveFiles) snapshot(ctx context.Context, s *icetable.Snapshot) error {
	held := l.source.Hold(l.meta.Name)
	defer held.Release()
	manifests, err := l.list(ctx, s, held)
	if err != nil {
		return err
	}
	if err := l.complete(s, manifests); err != nil {
		return err
	}
	for _, m := range manifests {
		if l.seen[m.FilePath()] {
			continue
		}
		if err := l.held.Grow(perFile); err != nil {
			return err
		}
		l.seen[m.FilePath()] = true
		l.each(m.FilePath())
		if err := l.manifest(ctx, m); err != nil {
			return err
		}
	}
	return nil
}

// complete returns an error if a manifest list has fewer files than the summary of its snapshot
// says. Without this check, a list that was truncated between two blocks would look complete.
func (l *liveFiles) complete(s *icetable.Snapshot, manifests []iceberg.ManifestFile) error {
	files := 0
	for _, m := range manifests {
		if m.ManifestContent() != iceberg.ManifestContentData {
			continue
		}
		if m.AddedDataFiles() < 0 || m.ExistingDataFiles() < 0 {
			return nil // the writer did not record the counts
		}
		files += int(m.AddedDataFiles()) + int(m.ExistingDataFiles())
	}
	if want := total(s); files < want {
		return metafile.Corrupt(l.meta.Name, s.ManifestList, "manifest list %s has manifests of %s, but snapshot %d has %d",
			s.ManifestList, fault.Count(files, "data file"), s.SnapshotID, want)
	}
	return nil
}

// manifest reads a manifest.
func (l *liveFiles) manifest(ctx context.Context, m iceberg.ManifestFile) error {
	held := l.source.Hold(l.meta.Name)
	defer held.Release()
	opened, err := l.Open(ctx, m, held)
	if err != nil {
		return err
	}
	entries, err := opened.Entries(Plain)
	if err != nil {
		return err
	}
	for _, of := range [][]iceberg.ManifestEntry{entries.Live, entries.removed} {
		for _, e := range of {
			l.each(e.DataFile().FilePath())
		}
	}
	return nil
}
