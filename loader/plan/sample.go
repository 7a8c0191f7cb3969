package plan

import "github.com/penstock/penstock/internal/expr"

// Sample says which rows of a source count, by their values and their places
// in the table's files alone: no run, order, batch or server changes it.
type Sample struct {
	// From and To bound the positions in hash space that are kept, as
	// dataset.HashRange; Columns names the columns whose hash is the position.
	// No Columns keep all.
	From, To float64
	Columns  []string
	// Rate is the share of the rows for which Where holds (nil: all) that is
	// kept. A row's lot depends on its file's location and its position in it.
	Rate  float64
	Where *expr.Filter
}
