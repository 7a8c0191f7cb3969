package datafile

import (
	"strings"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock/penstock/loader/catalog"
)

// bloomOption is the prefix of the table properties that enable bloom filters. The rest of a
// property's name is the name of a column.
const bloomOption = "write.parquet.bloom-filter-enabled.column."

// blooms returns the ids of the columns for which the table's properties enable bloom filters. Like
// other writers, it ignores booleans and names that are not columns of the table.
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
