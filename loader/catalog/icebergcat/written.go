package icebergcat

import (
	"slices"

	"github.com/apache/iceberg-go"

	"github.com/penstock/penstock/loader/catalog"
)

// unchanged is an error if a column that will be read is required, without an initial
// default, and the entry's file was written before it. Files that one snapshot added share the
// answer, so it is looked for once in a manifest.
func (l *listing) unchanged(e iceberg.ManifestEntry, in *manifestEntries) error {
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

// written returns the schemas that files of a snapshot may have been written
// under: the snapshot's own; if it has expired, that of the manifest which it
// added; if that was rewritten since, every schema that the table still knows.
func (l *listing) written(snapshot int64, in *manifestEntries) []*iceberg.Schema {
	if s := l.meta.SnapshotByID(snapshot); s != nil && s.SchemaID != nil {
		i := slices.IndexFunc(l.schemas, func(schema *iceberg.Schema) bool { return schema.ID == *s.SchemaID })
		if i >= 0 {
			return l.schemas[i : i+1]
		}
	}
	if in.schema != nil && in.snapshot == snapshot {
		return []*iceberg.Schema{in.schema}
	}
	return l.schemas
}

// has looks for the columns that will be read in an older schema. Under which name
// and type it has them does not matter: files are read by field id.
func (l *listing) has(schema *iceberg.Schema, file string) error {
	fields := columnsOf(schema)
	for _, now := range l.columns {
		if !slices.ContainsFunc(fields, func(f iceberg.NestedField) bool { return f.ID == now.ID }) {
			if err := l.lacking(now, file); err != nil {
				return err
			}
		}
	}
	return nil
}

// lacking refuses a column that a file cannot have, unless null or a default stands
// for it. A file may lack a column though its snapshot's schema has it: that is seen
// when the file is opened (catalog.Table.Defaults).
func (l *listing) lacking(now iceberg.NestedField, file string) error {
	if now.InitialDefault != nil || !now.Required {
		return nil
	}
	return catalog.LacksRequired(l.meta.name, file, now.Name)
}
