package icebergcat

import (
	"fmt"
	"slices"

	"github.com/apache/iceberg-go"

	"github.com/penstock/penstock/loader/catalog"
)

// unchanged is an error if a column that will be read was another one when
// the entry's file was written. Files that one snapshot added share the
// answer, so it is looked for once in a manifest.
func (l *listing) unchanged(e iceberg.ManifestEntry, in *manifestEntries) error {
	known, ok := in.checked[e.SnapshotID()]
	if !ok {
		for _, schema := range l.written(e.SnapshotID(), in) {
			if known = l.same(schema, e.DataFile().FilePath()); known != nil {
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

// same compares the columns that will be read with those of an older schema.
func (l *listing) same(schema *iceberg.Schema, file string) error {
	fields := columnsOf(schema)
	for _, now := range l.columns {
		i := slices.IndexFunc(fields, func(f iceberg.NestedField) bool { return f.ID == now.ID })
		if i < 0 {
			if err := l.lacking(now, file); err != nil {
				return err
			}
			continue
		}
		if was := difference(now, fields[i]); was != "" {
			return catalog.ChangedColumn(l.meta.name, file, now.Name, was)
		}
	}
	return nil
}

// lacking refuses a column that a file cannot have, unless null stands for it.
// A file may lack a column though its snapshot's schema has it: that is seen
// when the file is opened (catalog.Field.InitialDefault).
func (l *listing) lacking(now iceberg.NestedField, file string) error {
	if now.InitialDefault == nil && !now.Required {
		return nil
	}
	return catalog.UnservedDefault(l.meta.name, file, now.Name)
}

// difference says in which way a column was another one, or "".
func difference(now, was iceberg.NestedField) string {
	switch {
	case now.Name != was.Name:
		return fmt.Sprintf("was %q", was.Name)
	case !sameType(now.Type, was.Type):
		return fmt.Sprintf("was of type %s", was.Type)
	case now.Required && !was.Required:
		return "was optional"
	default:
		return ""
	}
}

// sameType compares what is stored: names, ids and types, but not comments and
// defaults. What was required may have become optional.
func sameType(now, was iceberg.Type) bool {
	a, nested := now.(iceberg.NestedType)
	b, wasNested := was.(iceberg.NestedType)
	if !nested || !wasNested {
		return now.Equals(was)
	}
	return now.Type() == was.Type() && slices.EqualFunc(a.Fields(), b.Fields(), func(x, y iceberg.NestedField) bool {
		return x.ID == y.ID && x.Name == y.Name && (y.Required || !x.Required) && sameType(x.Type, y.Type)
	})
}
