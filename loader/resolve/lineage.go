package resolve

import (
	"fmt"
	"slices"

	"github.com/penstock/penstock/loader/catalog"
)

// lineage returns the column with a name of the training table's row lineage, or nil if there is
// none. If a query selects all columns, row lineage columns are not included.
func (r *Relation) lineage(name string) *Output {
	i := slices.IndexFunc(r.Training.Lineage, func(f catalog.Field) bool { return f.Name == name })
	if i < 0 || r.hides(TrainingTable, r.Training.Lineage[i]) {
		return nil
	}
	return &Output{Name: name, Table: TrainingTable, Field: r.Training.Lineage[i], Null: true}
}

// withoutLineage returns why a table lacks a row lineage column with a name, or "" if row lineage
// has no column of that name.
func withoutLineage(t *catalog.Table, name string) string {
	if name != catalog.RowIDColumn && name != catalog.UpdatedColumn || len(t.Lineage) > 0 {
		return ""
	}
	return fmt.Sprintf("table %s has no column %q: rows have ids since format version 3; upgrade the table to it, or read one whose metadata has next-row-id", t.Name, name)
}
