package warehouse

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"

	"github.com/apache/iceberg-go"
	icetable "github.com/apache/iceberg-go/table"
	"github.com/google/uuid"

	"github.com/penstock/penstock/internal/scenario"
	"github.com/penstock/penstock/loader/catalog"
)

// table writes one table.
type table struct {
	*rand.Rand
	*columns
	types    *rand.Rand // decides how files store their columns
	dir      string     // folder of its files
	scheme   string     // prefix of locations
	name     string
	specs    []catalog.Spec
	writers  [2]style
	metadata *icetable.MetadataBuilder
	live     []entry
	list     []iceberg.ManifestFile // manifests of the previous snapshot
	ids      []int64                // ids of the snapshots, by commit
	clock    int64                  // time of the last snapshot, in milliseconds
	rows     int64                  // number of rows so far
	names    mapping                // the name mapping for files without field ids
	Files    []scenario.File
	deletes  []deleteEntry
	equally  map[rowOf]bool // rows that only equality deletes delete
	script   string         // prefix of the names of partition fields
}

// entry is a live data file with its manifest entry.
type entry struct {
	iceberg.DataFile
	commit int
}

// begun is the time of the first snapshot, in milliseconds.
const begun = 1_700_000_000_000

// newTable prepares to write a table with a history in a folder.
func newTable(r *rand.Rand, dir, script string, h History, t scenario.Table) (*table, error) {
	fields, err := scenario.Fields(t.Header)
	if err != nil {
		return nil, err
	}
	w := &table{
		Rand: r, dir: filepath.Join(dir, t.Name), script: script, name: t.Name, clock: begun, equally: map[rowOf]bool{},
		scheme: []string{"file://", "file:", ""}[r.IntN(3)], writers: [2]style{newStyle(r), newStyle(r)},
	}
	if w.columns, err = newColumns(r, h, t, fields); err != nil {
		return nil, err
	}
	for _, text := range t.Specs {
		spec, err := scenario.Spec(text, fields)
		if err != nil {
			return nil, err
		}
		w.specs = append(w.specs, spec)
	}
	if w.metadata, err = icetable.NewMetadataBuilder(h.Format); err != nil {
		return nil, err
	}
	for _, folder := range []string{"data", "metadata"} {
		if err := os.MkdirAll(filepath.Join(w.dir, folder), 0o700); err != nil {
			return nil, err
		}
	}
	return w, nil
}

// create writes the metadata of a new table.
func (w *table) create() error {
	order := icetable.UnsortedSortOrder
	b := w.metadata
	for _, err := range []error{
		b.SetUUID(uuid.New()), b.SetLoc(w.scheme + w.dir), w.alter(-1), w.addSpec(0), b.AddSortOrder(&order), b.SetDefaultSortOrderID(0),
	} {
		if err != nil {
			return err
		}
	}
	return nil
}

// alter makes the schema of a commit the current one.
func (w *table) alter(commit int) error {
	if err := w.metadata.AddSchema(w.at(commit)); err != nil {
		return err
	}
	return w.metadata.SetCurrentSchemaID(-1)
}

// addSpec adds the partition specs up to the given spec, as far as the table lacks them, and makes
// the given spec the default.
func (w *table) addSpec(spec int) error {
	for {
		if _, err := w.metadata.GetSpecByID(spec); err == nil {
			return w.metadata.SetDefaultSpecID(spec)
		}
		next := 0
		for ; ; next++ {
			if _, err := w.metadata.GetSpecByID(next); err != nil {
				break
			}
		}
		s := iceberg.NewPartitionSpecID(next, w.partitionFields(next)...)
		if err := w.metadata.AddPartitionSpec(&s, false); err != nil {
			return err
		}
		if _, err := w.metadata.GetSpecByID(next); err != nil {
			return fmt.Errorf("spec %d of table %s has another id: %w", next, w.name, err)
		}
	}
}

// partitionFields returns the fields of a spec. In format version 1, the fields of earlier specs
// stay in the spec as void fields.
func (w *table) partitionFields(spec int) []iceberg.PartitionField {
	var fields []iceberg.PartitionField
	void := 0
	if w.Format == 1 {
		for i := range spec {
			void += len(w.specs[i])
		}
	}
	id := slices.IndexFunc(w.fields, func(f catalog.Field) bool { return f.Name == "item" || f.Name == "row" }) // columns that the table has always had
	for i := range void {
		fields = append(fields, iceberg.PartitionField{SourceIDs: []int{w.columns.ids[id]}, FieldID: 1000 + i, Name: fmt.Sprintf("void_%d", i), Transform: iceberg.VoidTransform{}})
	}
	for i, f := range w.specs[spec] {
		id := 1000 + void + i
		if w.Format > 1 {
			id = w.fieldID(spec, i)
		}
		fields = append(fields, iceberg.PartitionField{SourceIDs: []int{w.columns.ids[f.Source-1]}, FieldID: id, Name: w.fieldName(f), Transform: transform(f.Transform)})
	}
	return fields
}

// fieldID returns the id of a partition field: the id of the first field with the same source and
// transform.
func (w *table) fieldID(spec, field int) int {
	id := 1000
	for _, s := range w.specs[:spec+1] {
		for _, f := range s {
			want := w.specs[spec][field]
			if f.Source == want.Source && f.Transform == want.Transform {
				return id
			}
			id++
		}
	}
	return id
}

// fieldName names a partition field like other writers: after the column's name at the time when
// the spec is added. If the column is renamed later, another column may get that name.
func (w *table) fieldName(f catalog.PartitionField) string {
	name, _ := w.metadata.CurrentSchema().FindColumnName(w.columns.ids[f.Source-1])
	name = w.script + name
	switch {
	case f.Transform.Kind == catalog.Identity:
		return name
	case f.Transform.N > 0:
		return fmt.Sprintf("%s_%s_%d", name, f.Transform.Kind, f.Transform.N)
	default:
		return fmt.Sprintf("%s_%s", name, f.Transform.Kind)
	}
}

func transform(t catalog.Transform) iceberg.Transform {
	switch t.Kind {
	case catalog.Bucket:
		return iceberg.BucketTransform{NumBuckets: t.N}
	case catalog.Truncate:
		return iceberg.TruncateTransform{Width: t.N}
	case catalog.Year:
		return iceberg.YearTransform{}
	case catalog.Month:
		return iceberg.MonthTransform{}
	case catalog.Day:
		return iceberg.DayTransform{}
	case catalog.Hour:
		return iceberg.HourTransform{}
	default:
		return iceberg.IdentityTransform{}
	}
}
