// Package rowdigest identifies rows by their values.
//
// Rows have the same digest if their columns have the same names and equal values in the same order. The digest does not depend
// on how the rows are cut into batches, on offsets, on bytes under nulls, or on the order of columns. A column in which all
// values are null counts as absent. Floats are compared by their bits.
//
// The digest is built from 128-bit xxh3 hashes. It distinguishes rows that differ by accident; it is no defense against somebody
// who searches for rows with a given digest.
package rowdigest

import (
	"cmp"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock/penstock/internal/digest"
	"github.com/penstock/penstock/internal/fault"
)

// Rows computes the digest of rows that are added batch by batch. It is not safe for concurrent use.
type Rows struct {
	names   []string
	columns []*values
	rows    int64
}

// New begins a digest of rows with the columns of a schema. It returns Invalid if tables have no columns of a type: see package
// conform.
func New(schema *arrow.Schema) (*Rows, error) {
	r := &Rows{}
	for _, f := range schema.Fields() {
		column, err := newValues(f.Type)
		if err != nil {
			return nil, fault.Op(err, "column %s", f.Name)
		}
		r.names, r.columns = append(r.names, f.Name), append(r.columns, column)
	}
	return r, nil
}

// Add adds rows, which it borrows, given all columns of the schema.
func (r *Rows) Add(columns []arrow.Array) {
	for i, column := range columns {
		r.columns[i].add(column, 0, column.Len())
	}
	if len(columns) > 0 {
		r.rows += int64(columns[0].Len())
	}
}

// identity is what the digest of rows depends on.
type identity struct {
	Rows    int64
	Columns []namedSums
}

// namedSums are the hashes of a column.
type namedSums struct {
	Name string
	Sums []sum
}

// Sum returns the digest of the rows so far: 64 hexadecimal digits.
func (r *Rows) Sum() string {
	all := identity{Rows: r.rows}
	for i, column := range r.columns {
		if column.valid > 0 {
			all.Columns = append(all.Columns, namedSums{Name: r.names[i], Sums: column.sums(nil)})
		}
	}
	slices.SortFunc(all.Columns, func(a, b namedSums) int { return cmp.Compare(a.Name, b.Name) })
	return digest.Of(all)
}
