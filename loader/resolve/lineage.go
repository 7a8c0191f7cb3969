package resolve

import (
	"fmt"
	"slices"

	"github.com/penstock/penstock/loader/catalog"
)

// lineage returns a column of the training table's row lineage, which is no part of all
// columns; nil if it has none of that name.
func (r *Relation) lineage(name string) *Output {
	i := slices.IndexFunc(r.Training.Lineage, func(f catalog.Field) bool { return f.Name == name })
	if i < 0 {
		return nil
	}
	return &Output{Name: name, Table: TrainingTable, Field: r.Training.Lineage[i], Null: true}
}

// withoutLineage says why a table has no column of a name that row lineage has; "" for
// every other name.
func withoutLineage(t *catalog.Table, name string) string {
	if name != catalog.RowIDColumn && name != catalog.UpdatedColumn || len(t.Lineage) > 0 {
		return ""
	}
	return fmt.Sprintf("table %s has no column %q: rows have ids from format version 3 on, to which the table can be upgraded", t.Name, name)
}
