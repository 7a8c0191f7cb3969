package commits

import (
	"context"
	"maps"
	"slices"

	"github.com/apache/iceberg-go"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/catalog/commit"
	"github.com/penstock/penstock/loader/catalog/icebergcat/listing"
	"github.com/penstock/penstock/loader/catalog/icebergcat/manifests"
	"github.com/penstock/penstock/loader/catalog/icebergcat/metadata"
	"github.com/penstock/penstock/loader/dataset"
)

// firstVersionOfDeletes is the first format version with delete files.
const firstVersionOfDeletes = 2

// addDeletes writes manifests of the added delete files: one for each partition spec.
func (s *preparing) addDeletes(ctx context.Context) ([]iceberg.ManifestFile, error) {
	bySpec := map[int][]iceberg.ManifestEntry{}
	for _, d := range s.change.AddDeletes {
		if err := s.mayDelete(d); err != nil {
			return nil, err
		}
		if err := s.meta.File.Charge(perAdded + 2*int64(len(d.Data))); err != nil {
			return nil, err
		}
		form, err := s.form(d.Spec)
		if err != nil {
			return nil, err
		}
		file, err := form.Deletes(d)
		if err != nil {
			return nil, fault.InvalidField("add_deletes", "delete file %s of table %s: %s", d.Location, s.table, err).In(s.table, d.Location)
		}
		bySpec[d.Spec] = append(bySpec[d.Spec], s.new.Added(file, d.Sequence))
		s.counts.addDeletes(d)
	}
	var out []iceberg.ManifestFile
	for _, id := range slices.Sorted(maps.Keys(bySpec)) {
		form, err := s.form(id)
		if err != nil {
			return nil, err
		}
		form.Content = iceberg.ManifestContentDeletes
		file, err := s.manifest(ctx, form, bySpec[id])
		if err != nil {
			return nil, err
		}
		out = append(out, file)
	}
	return out, nil
}

// mayDelete returns an error if the table cannot have the delete file.
func (s *preparing) mayDelete(d catalog.DeleteFile) error {
	vector := d.Kind == catalog.DeletionVector
	switch version := s.new.Version; {
	case version < firstVersionOfDeletes || vector != (version >= metadata.LineageVersion):
		return fault.InvalidField("add_deletes", "%s is %s, which cannot be added to table %s of format version %d", d.Location, d.Kind, s.table, version).
			In(s.table, d.Location).WithRemedy("write deletion vectors for tables of format version 3, position deletes for those of version 2, and none for those of version 1")
	case d.Sequence > s.meta.LastSequenceNumber():
		return fault.InvalidField("add_deletes", "delete file %s has sequence number %d, but the last one of table %s is %d", d.Location, d.Sequence, s.table, s.meta.LastSequenceNumber()).
			In(s.table, d.Location)
	}
	return s.meta.May("delete file", d.Location)
}

// form returns the ManifestForm for manifests with the given partition spec. Its schema is the
// current one. If the current schema no longer has the columns of the spec, it is the latest schema
// that has them.
func (s *preparing) form(spec int) (manifests.ManifestForm, error) {
	of, ok := s.specs[spec]
	if !ok {
		return manifests.ManifestForm{}, fault.New(fault.Conflict, "partition spec %d is not one of table %s", spec, s.table).In(s.table, "").
			WithRemedy("write the files again with the table's current spec")
	}
	schemas := slices.Clone(s.meta.Schemas())
	slices.SortFunc(schemas, func(a, b *iceberg.Schema) int { return b.ID - a.ID })
	for _, schema := range append([]*iceberg.Schema{s.schema}, schemas...) {
		if hasSources(schema, of) {
			return manifests.ManifestForm{Spec: of, Schema: schema}, nil
		}
	}
	return manifests.ManifestForm{Spec: of, Schema: s.schema}, nil // the encoder returns an error that names the missing column
}

// hasSources reports whether a schema has all columns that a partition spec derives values from.
func hasSources(schema *iceberg.Schema, spec iceberg.PartitionSpec) bool {
	for i := range spec.NumFields() {
		if slices.ContainsFunc(spec.Field(i).SourceIDs, func(id int) bool { _, ok := schema.FindFieldByID(id); return !ok }) {
			return false
		}
	}
	return true
}

// checkRows returns Invalid if the numbers of rows that a rewrite adds and removes do not match.
func (s *preparing) checkRows() error {
	added, removed := s.counts.added.rows, s.counts.removed.rows
	if s.change.Mode != commit.Rewrite || removed-added == s.change.DroppedRows {
		return nil
	}
	return fault.InvalidField("add", "a rewrite of table %s must keep its rows: it removes files with %d rows and adds files with %d, but dropped_rows is %d",
		s.table, removed, added, s.change.DroppedRows).In(s.table, "").WithRemedy("write all rows of the removed files again but those that were deleted, and no others")
}

// checkApplied returns an error if a delete file to remove applies to a data file that stays, or if
// DroppedRows is larger than the number of rows that can have been deleted. It does not check
// position deletes that may apply to several data files. It reads the branch's manifests only if
// the change removes delete files or has DroppedRows.
func (s *preparing) checkApplied(ctx context.Context, head *listing.Listing, gone *removing) error {
	if len(gone.deletes) == 0 && s.change.DroppedRows == 0 {
		return nil
	}
	t, err := s.source.TableAt(ctx, s.meta, dataset.TablePin{
		UUID: s.meta.TableUUID().String(), Snapshot: head.Snapshot.SnapshotID, Schema: head.Schema.ID, Mapping: dataset.NoMapping,
	})
	if err != nil {
		return err
	}
	all, err := head.Read(ctx)
	if err != nil {
		return err
	}
	for _, f := range s.change.Add {
		if f.Sequence > 0 || f.Snapshot != 0 { // no deletes apply to other files, because they are newer than all deletes
			all.Data = append(all.Data, catalog.File{Location: f.Location, Rows: f.Rows, Sequence: f.Sequence, Spec: f.Spec, Partition: f.Partition})
		}
	}
	if err := catalog.Delete(t, all.Data, all.Named()); err != nil {
		return err
	}
	deleted := int64(0)
	for _, f := range all.Data {
		if gone.files[f.Location] {
			deleted += mayBeDeleted(f)
			continue
		}
		for _, d := range f.Deletes.All(f.Sequence) {
			if gone.deletes[d.Location] && !spansFiles(d) {
				return fault.New(fault.Conflict, "delete file %s of table %s cannot be removed: it deletes rows of %s, which stays", d.Location, s.table, f.Location).
					In(s.table, d.Location).WithRemedy("make the change again from the branch's current snapshot")
			}
		}
	}
	if deleted < s.change.DroppedRows {
		return fault.InvalidField("dropped_rows", "the change drops %d rows of table %s, but at most %d rows of the removed files had been deleted", s.change.DroppedRows, s.table, deleted).
			In(s.table, "").WithRemedy("write again all rows of the removed files that had not been deleted")
	}
	return nil
}

// spansFiles reports whether a delete file is a file of position deletes that may apply to several
// data files. Only its content shows to which.
func spansFiles(d *catalog.DeleteFile) bool { return d.Kind == catalog.PositionDeletes && d.Data == "" }

// mayBeDeleted returns the maximum number of rows that the delete files of a data file can delete.
func mayBeDeleted(f catalog.File) int64 {
	n := int64(0)
	for _, d := range f.Deletes.All(f.Sequence) {
		if d.Kind == catalog.EqualityDeletes {
			return f.Rows
		}
		n += d.Rows
	}
	return min(n, f.Rows)
}
