package icebergcat

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"

	"github.com/apache/iceberg-go"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/catalog/icebergcat/manifests"
	"github.com/penstock/penstock/loader/catalog/icebergcat/metafile"
	"github.com/penstock/penstock/loader/dataset"
)

// remove returns the manifests of the branch without the files to remove. Manifests that have
// none of them are carried over as they are.
func (s *preparing) remove(ctx context.Context) ([]iceberg.ManifestFile, error) {
	gone := newRemoving(s.change)
	if s.head == nil {
		return nil, s.missing(gone.missing())
	}
	l, err := s.listing(s.head.SnapshotID)
	if err != nil {
		return nil, err
	}
	found, err := l.manifests(ctx)
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
func (s *preparing) listing(snapshot int64) (*listing, error) {
	pin := dataset.TablePin{UUID: s.meta.TableUUID().String(), Snapshot: snapshot, Schema: s.meta.CurrentSchema().ID}
	l, err := s.catalog.newListing(s.meta, pin, nil, nil)
	if l != nil {
		l.held = s.meta.file.Held
	}
	return l, err
}

// without returns a manifest without files to remove, and records those that it had.
func (s *preparing) without(ctx context.Context, l *listing, m iceberg.ManifestFile, gone *removing) (iceberg.ManifestFile, error) {
	held := s.catalog.hold(s.table)
	defer held.Release()
	file := s.catalog.allow(metafile.Subject{What: "manifest", Table: s.table, Location: m.FilePath()}, held)
	content, err := l.manifestFile(ctx, file, m.Length())
	if err != nil {
		return nil, err
	}
	entries, err := l.entries(m, file, content)
	if err != nil {
		return nil, s.catalog.orForget(l.keyOf(m.FilePath(), m.Length()), err)
	}
	if !slices.ContainsFunc(entries.live, func(e iceberg.ManifestEntry) bool { return gone.takes(e.DataFile()) }) {
		return m, nil
	}
	whole, schema, err := l.wholeEntries(m, file, content)
	if err != nil {
		return nil, err
	}
	kept, taken := s.new.Without(whole, gone.takes)
	for _, e := range taken {
		gone.took(e.DataFile())
		s.counts.remove(e.DataFile())
	}
	form := manifests.ManifestForm{Spec: s.specs[int(m.PartitionSpecID())], Schema: schema, Content: m.ManifestContent()}
	if schema == nil {
		form.Schema = s.schema
	}
	return s.manifest(ctx, form, append(kept, taken...))
}

// perWhole is charged for each byte of a manifest's records whose statistics are all read.
const perWhole = 2 * metafile.PerBounds

// wholeEntries decodes a manifest with everything that its entries have, so that they can be
// written again, and the schema that it was written with, or nil. The caller has checked with
// entries that the manifest is complete.
func (l *listing) wholeEntries(m iceberg.ManifestFile, file metafile.Allowance, content []byte) ([]iceberg.ManifestEntry, *iceberg.Schema, error) {
	unreadable := func(err error) error {
		return metafile.Corrupt(l.meta.name, m.FilePath(), "manifest %s cannot be read: %w", m.FilePath(), err)
	}
	unpacked, err := metafile.NewContainer(file, content, metafile.ReadOptions{PerByte: perWhole, Schemas: l.avro, Content: m.ManifestContent().String()})
	if err != nil {
		return nil, nil, unreadable(err)
	}
	defer unpacked.Close()
	reader, err := iceberg.NewManifestReader(m, unpacked)
	if err != nil {
		return nil, nil, unreadable(unpacked.Failure(err))
	}
	defer reader.Close() //nolint:errcheck // it reads from memory
	var schema *iceberg.Schema
	if read := (&iceberg.Schema{}); json.Unmarshal(unpacked.Schema, read) == nil {
		read.ID, _ = reader.SchemaID() // if the writer set it
		schema = read
	}
	var out []iceberg.ManifestEntry
	for {
		e, err := reader.ReadEntry()
		if errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			return out, schema, nil
		}
		if err != nil {
			return nil, nil, unreadable(unpacked.Failure(err))
		}
		out = append(out, e)
	}
}

// checkDeletes returns Conflict if deletes were committed after the change's base that apply
// to removed files: their rows would be back.
func (s *preparing) checkDeletes(ctx context.Context, head *listing, now []iceberg.ManifestFile) error {
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
	then, err := base.manifests(ctx)
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

// deletesOf returns the names of the delete files of each data file of a snapshot.
func (s *preparing) deletesOf(ctx context.Context, l *listing) (map[string]string, error) {
	t, err := s.catalog.table(ctx, s.meta, dataset.TablePin{
		UUID: s.meta.TableUUID().String(), Snapshot: l.snapshot.SnapshotID, Schema: l.schema.ID, Mapping: dataset.NoMapping,
	})
	if err != nil {
		return nil, err
	}
	files, err := l.files(ctx, t)
	if err != nil {
		return nil, err
	}
	out := make(map[string]string, len(files))
	for _, f := range files {
		out[f.Location] = deleteNames(f)
	}
	return out, nil
}

// deleteNames returns what identifies the deletes of a file.
func deleteNames(f catalog.File) string {
	var names []string
	for _, d := range f.Deletes.All(f.Sequence) {
		names = append(names, d.Location)
	}
	slices.Sort(names)
	return strings.Join(names, "\n")
}
