package datafile

import (
	"strings"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock/penstock/loader/catalog"
)

// bloomOption begins the names of the properties of a table that ask for bloom filters. The rest is the name of a column.
const bloomOption = "write.parquet.bloom-filter-enabled.column."

// blooms returns the ids of the columns of the table whose bloom filters its properties ask for. Booleans have none, and names that the
// table does not have are ignored, as other writers do.
func (t *Target) blooms() []int {
	var out []int
	for _, fields := range [][]catalog.Field{t.State.Table.Fields, t.State.Table.Nested} {
		for _, f := range fields {
			wanted := strings.EqualFold(t.State.Properties[bloomOption+f.Name], "true")
			if wanted && !arrow.IsNested(f.Type.ID()) && f.Type.ID() != arrow.BOOL && f.Type.ID() != arrow.NULL {
				out = append(out, f.ID)
			}
		}
	}
	return out
}
