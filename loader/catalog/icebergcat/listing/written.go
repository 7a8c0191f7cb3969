package listing

import (
	"slices"

	"github.com/apache/iceberg-go"

	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/catalog/icebergcat/column"
)

// unchanged returns an error if the entry's file is older than one of the columns to read, and this
// column is required and has no initial default. The result is the same for all files that a
// snapshot added, so it is computed once for each snapshot in a manifest.
func (l *Listing) unchanged(e iceberg.ManifestEntry, in *ManifestEntries) error {
	known, ok := in.checked[e.SnapshotID()]
	if !ok {
		for _, schema := range l.written(e.SnapshotID(), in) {
			if known = l.has(schema, e.DataFile().FilePath()); known != nil {
				break
			}
		}
		in.checked[e.SnapshotID()] = known
	}
	return known
}

// written returns the schemas with which the files of a snapshot may have been written. This is the
// snapshot's schema. If the snapshot has expired, it is the schema of the manifest, if that
// snapshot added the manifest. Otherwise, it may be any schema of the table.
func (l *Listing) written(snapshot int64, in *ManifestEntries) []*iceberg.Schema {
	if s := l.meta.SnapshotByID(snapshot); s != nil && s.SchemaID != nil {
		i := slices.IndexFunc(l.schemas, func(schema *iceberg.Schema) bool { return schema.ID == *s.SchemaID })
		if i >= 0 {
			return l.schemas[i : i+1]
		}
	}
	if in.Schema != nil && in.snapshot == snapshot {
		return []*iceberg.Schema{in.Schema}
	}
	return l.schemas
}

// has returns an error if a schema lacks one of the columns to read. It compares only field ids,
// because files are read by field id.
func (l *Listing) has(schema *iceberg.Schema, file string) error {
	fields := column.All(schema)
	for _, now := range l.columns {
		if !slices.ContainsFunc(fields, func(f iceberg.NestedField) bool { return f.ID == now.ID }) {
			if err := l.lacking(now, file); err != nil {
				return err
			}
		}
	}
	return nil
}

// lacking returns an error for a column that a file lacks, unless the column is optional or has an
// initial default. A file may lack a column even though the schema of its snapshot has the column:
// this is checked when the file is opened (see catalog.Table.Defaults).
func (l *Listing) lacking(now iceberg.NestedField, file string) error {
	if now.InitialDefault != nil || !now.Required {
		return nil
	}
	return catalog.LacksRequired(l.meta.Name, file, now.Name)
}
