package commits

import (
	"context"
	"slices"
	"strings"

	"github.com/apache/iceberg-go"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/catalog/icebergcat/listing"
	"github.com/penstock/penstock/loader/catalog/icebergcat/manifests"
	"github.com/penstock/penstock/loader/dataset"
)

// remove returns the manifests of the branch after the removal of files. It writes a new manifest
// for each manifest that has files to remove, and keeps the others.
func (s *preparing) remove(ctx context.Context) ([]iceberg.ManifestFile, error) {
	gone := newRemoving(s.change)
	if s.head == nil {
		return nil, s.missing(gone.missing())
	}
	l, err := s.listing(s.head.SnapshotID)
	if err != nil {
		return nil, err
	}
	found, err := l.Current(ctx)
	if err != nil || gone.none() {
		return manifests.Live(found), err
	}
	var out []iceberg.ManifestFile
	for _, m := range manifests.Live(found) {
		if gone.concerns(m) {
			if m, err = s.without(ctx, l, m, gone); err != nil {
				return nil, err
			}
		}
		out = append(out, m)
	}
	if err := s.missing(gone.missing()); err != nil {
		return nil, err
	}
	if err := s.checkRows(); err != nil {
		return nil, err
	}
	if err := s.checkDeletes(ctx, l, found); err != nil {
		return nil, err
	}
	return out, s.checkApplied(ctx, l, gone)
}

// missing returns Conflict if files to remove are not in the branch.
func (s *preparing) missing(files []string) error {
	if len(files) == 0 {
		return nil
	}
	return fault.New(fault.Conflict, "%s of the change, such as %s, %s not in branch %s of table %s: another commit replaced or removed them",
		fault.Count(len(files), "file"), files[0], map[bool]string{true: "is", false: "are"}[len(files) == 1], s.change.Branch, s.table).In(s.table, files[0]).
		WithRemedy("make the change again from the branch's current snapshot")
}

// listing returns the listing of a snapshot with the current schema.
func (s *preparing) listing(snapshot int64) (*listing.Listing, error) {
	pin := dataset.TablePin{UUID: s.meta.TableUUID().String(), Snapshot: snapshot, Schema: s.meta.CurrentSchema().ID}
	l, err := listing.NewListing(s.source, s.meta, pin, nil, nil)
	if l != nil {
		l.Held = s.meta.File.Held
	}
	return l, err
}

// without returns the manifest m without the files to remove, and records in gone which of them m
// had.
func (s *preparing) without(ctx context.Context, l *listing.Listing, m iceberg.ManifestFile, gone *removing) (iceberg.ManifestFile, error) {
	held := s.source.Hold(s.table)
	defer held.Release()
	opened, err := l.Open(ctx, m, held)
	if err != nil {
		return nil, err
	}
	entries, err := opened.Entries(listing.Plain)
	if err != nil {
		return nil, err
	}
	if !slices.ContainsFunc(entries.Live, func(e iceberg.ManifestEntry) bool { return gone.takes(e.DataFile()) }) {
		return m, nil
	}
	if entries, err = opened.Entries(listing.Rewritable); err != nil {
		return nil, err
	}
	kept, taken := s.new.Without(entries.Live, gone.takes)
	for _, e := range taken {
		gone.took(e.DataFile())
		s.counts.remove(e.DataFile())
	}
	form := manifests.ManifestForm{Spec: s.specs[int(m.PartitionSpecID())], Schema: entries.Schema, Content: m.ManifestContent()}
	if entries.Schema == nil {
		form.Schema = s.schema
	}
	return s.manifest(ctx, form, append(kept, taken...))
}

// checkDeletes returns Conflict if deletes that apply to removed files were committed after the
// change's Base: the change would bring the deleted rows back.
func (s *preparing) checkDeletes(ctx context.Context, head *listing.Listing, now []iceberg.ManifestFile) error {
	if s.change.Base == s.head.SnapshotID {
		return nil
	}
	if s.meta.SnapshotByID(s.change.Base) == nil {
		return fault.New(fault.Conflict, "snapshot %d of table %s, which the change was derived from, no longer exists: whether rows were deleted after it cannot be determined",
			s.change.Base, s.table).In(s.table, "").WithRemedy("make the change again from the branch's current snapshot")
	}
	base, err := s.listing(s.change.Base)
	if err != nil {
		return err
	}
	then, err := base.Current(ctx)
	if err != nil {
		return err
	}
	known := map[string]bool{}
	for _, m := range then {
		known[m.FilePath()] = true
	}
	if !slices.ContainsFunc(now, func(m iceberg.ManifestFile) bool {
		return m.ManifestContent() == iceberg.ManifestContentDeletes && !known[m.FilePath()]
	}) {
		return nil
	}
	before, err := s.deletesOf(ctx, base)
	if err != nil {
		return err
	}
	after, err := s.deletesOf(ctx, head)
	if err != nil {
		return err
	}
	for _, location := range s.change.Remove {
		if before[location] != after[location] {
			return fault.New(fault.Conflict, "rows of file %s of table %s were deleted by another commit after snapshot %d, which the change was derived from", location, s.table, s.change.Base).
				In(s.table, location).WithRemedy("make the change again from the branch's current snapshot")
		}
	}
	return nil
}

// deletesOf returns, by the location of each data file of a snapshot, the text of deleteNames.
func (s *preparing) deletesOf(ctx context.Context, l *listing.Listing) (map[string]string, error) {
	t, err := s.source.TableAt(ctx, s.meta, dataset.TablePin{
		UUID: s.meta.TableUUID().String(), Snapshot: l.Snapshot.SnapshotID, Schema: l.Schema.ID, Mapping: dataset.NoMapping,
	})
	if err != nil {
		return nil, err
	}
	files, err := l.Files(ctx, t)
	if err != nil {
		return nil, err
	}
	out := make(map[string]string, len(files))
	for _, f := range files {
		out[f.Location] = deleteNames(f)
	}
	return out, nil
}

// deleteNames returns a text that identifies the delete files of a data file: their sorted
// locations.
func deleteNames(f catalog.File) string {
	var names []string
	for _, d := range f.Deletes.All(f.Sequence) {
		names = append(names, d.Location)
	}
	slices.Sort(names)
	return strings.Join(names, "\n")
}
