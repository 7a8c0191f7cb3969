package scan

import (
	"fmt"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/parquet"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/plan"
)

// projection is the columns that are read from each file, and those that are returned.
type projection struct {
	read    []catalog.Field // distinct: the requested columns, then the columns that filter, sample and checks need
	ids     []int           // field ids of read
	schema  *arrow.Schema   // of read, with the table's names, which the filter uses; nested fields have ids
	output  *arrow.Schema   // of the returned batches
	from    []int           // by output column: its index in read
	checked []int           // indices in read of the checked keys
	coded   []int           // ids of the columns that may come as codes: columns that are only returned, not evaluated
	// defaults are the initial defaults of fields inside columns that are read whole, by id.
	defaults map[int]parquet.Constant
}

// project returns the projection for the requested columns.
func project(source plan.Source, columns []catalog.Field) (*projection, error) {
	p := &projection{}
	output := make([]arrow.Field, len(columns))
	for i, c := range columns {
		at, err := p.add(source, c.ID, c.Name)
		if err != nil {
			return nil, err
		}
		if own := p.read[at]; !arrow.TypeEqual(own.Type, c.Type) || own.Required != c.Required {
			return nil, fault.New(fault.Internal, "column %s is requested as %s, but is %s in the table", c.Name, c.Arrow(), own.Arrow())
		}
		output[i] = c.Arrow()
		p.from = append(p.from, at)
	}
	looked := map[int]bool{} // ids of the columns whose values the scan looks at
	for _, name := range slices.Concat(source.Filter.Columns(), source.Sample.Reads()) {
		f, ok := source.Table.Field(name)
		if !ok {
			return nil, unknownColumn(name)
		}
		if _, err := p.add(source, f.ID, name); err != nil {
			return nil, err
		}
		looked[f.ID] = true
	}
	for _, key := range source.Checked {
		looked[key.ID] = true
		at, err := p.add(source, key.ID, key.Name)
		if err != nil {
			return nil, err
		}
		p.checked = append(p.checked, at)
	}
	p.addDeletes(source, looked)
	p.coded = slices.DeleteFunc(slices.Clone(source.Coded), func(id int) bool { return looked[id] })
	read := make([]arrow.Field, len(p.read))
	for i, f := range p.read {
		read[i] = f.Arrow()
		if f.Stored != nil {
			read[i].Type = f.Stored
		}
	}
	p.defaults = defaultsOf(source.Table, p.read)
	if source.Ordinals {
		output = append(output, arrow.Field{Name: "ordinal", Type: arrow.PrimitiveTypes.Int64})
	}
	p.schema, p.output = arrow.NewSchema(read, nil), arrow.NewSchema(output, nil)
	return p, nil
}

// add returns the index of a column in read, adding the column if it is new. A column that
// the plan has not read from the catalog is Internal.
func (p *projection) add(source plan.Source, id int, name string) (int, error) {
	if at := slices.Index(p.ids, id); at >= 0 {
		return at, nil
	}
	f, ok := source.Table.ByID(id)
	if !ok {
		return 0, unknownColumn(name)
	}
	if err := source.Check(f); err != nil {
		return 0, err
	}
	p.read, p.ids = append(p.read, f), append(p.ids, id)
	return len(p.read) - 1, nil
}

// addDeletes adds the columns that equality deletes of the source's files compare. A column
// that the table has dropped gets a name that no other column has.
func (p *projection) addDeletes(source plan.Source, looked map[int]bool) {
	for _, f := range source.Files {
		for _, g := range f.File.Deletes.Equality {
			for _, c := range g.Columns {
				looked[c.ID] = true
				if slices.Contains(p.ids, c.ID) {
					continue
				}
				if _, ok := source.Table.ByID(c.ID); !ok {
					c.Name = fmt.Sprintf("%s (dropped, field id %d)", c.Name, c.ID)
				}
				p.read, p.ids = append(p.read, c), append(p.ids, c.ID)
			}
		}
	}
}

func unknownColumn(name string) error {
	return fault.New(fault.Internal, "column %s is requested, which the pinned table does not have", name)
}
