package promote

import (
	"cmp"
	"context"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/plan"
)

// rawTable restricts the training table to some of its files and ignores deletes, so rows keep their stored positions.
type rawTable struct {
	catalog.Catalog
	name   string
	table  *catalog.Table
	wanted func(catalog.File) bool
	read   map[string]rewritten // files that are read instead of others, by the location of the other file
}

// Table implements catalog.Catalog.
func (r rawTable) Table(ctx context.Context, name string, ref dataset.Ref) (*catalog.Table, error) {
	if name == r.name {
		return r.table, nil
	}
	return r.Catalog.Table(ctx, name, ref)
}

// At implements catalog.Catalog.
func (r rawTable) At(ctx context.Context, name string, pin dataset.TablePin) (*catalog.Table, error) {
	if name == r.name && pin == r.table.Pin {
		return r.table, nil
	}
	return r.Catalog.At(ctx, name, pin)
}

// Files implements catalog.Catalog.
func (r rawTable) Files(ctx context.Context, t *catalog.Table, columns []int, bounds []int) ([]catalog.File, error) {
	files, err := r.Catalog.Files(ctx, t, columns, bounds)
	if t.Name != r.name || err != nil {
		return files, err
	}
	var out []catalog.File
	for _, f := range files {
		if r.wanted(f) {
			f.Deletes = catalog.Deletes{}
			if by, ok := r.read[f.Location]; ok {
				f.Original = cmp.Or(f.Original, f.Location)
				f.Location, f.Bytes = by.location, by.made.Bytes
			}
			out = append(out, f)
		}
	}
	return out, nil
}

// raw returns the training table at the state, restricted to the wanted files.
func (p *promoting) raw(wanted func(catalog.File) bool) rawTable {
	return rawTable{Catalog: p.options.Catalog, name: p.shown, table: p.named(), wanted: wanted}
}

// valuePlan reads the values of the new columns for all rows of some files.
type valuePlan struct {
	loader *loader.Loader
	loader.Planned
	at []int // index of each new column in the batches
}

// plan plans a read of the new columns' values for the rows of the wanted files, in stored order.
func (p *promoting) plan(ctx context.Context, wanted func(catalog.File) bool) (*valuePlan, error) {
	raw := p.raw(wanted)
	out := &valuePlan{loader: p.options.Loader(raw)}
	d := p.definition.dataset
	query := dataset.Query{
		Rows:    dataset.Rows{Inline: &d, Pin: dataset.Pin{Training: raw.table.Pin, Staging: p.definition.pins}, Order: dataset.Stored, Lanes: 1},
		Reading: dataset.Reading{Shard: dataset.Shard{Of: 1}, Cache: dataset.CacheOff},
	}
	for _, c := range p.definition.columns {
		query.Columns = append(query.Columns, dataset.Column{Column: c.name})
	}
	var err error
	if out.Planned, err = out.loader.Plan(ctx, query.Defaults()); err != nil {
		return nil, err
	}
	for _, c := range p.definition.columns {
		for i, o := range out.Outputs {
			if o.Name == c.name {
				out.at = append(out.at, i)
			}
		}
	}
	if len(out.at) != len(query.Columns) || out.Inexact != "" {
		return nil, fault.New(fault.Internal, "the plan of the new columns has other rows or columns than the training table: %s", out.Inexact)
	}
	return out, nil
}

// splitRun has the rows of consecutive whole files, in consecutive splits of a plan.
type splitRun struct {
	part  plan.Part
	files []catalog.File
	rows  int64
}

// runs divides a plan into runs of whole files. Each run except the last has at least the given
// number of rows. Splits that share a file are in the same run.
func (v *valuePlan) runs(rows int64) ([]splitRun, error) {
	var out []splitRun
	open := splitRun{}
	left := int64(0) // rows of the last file in later splits
	for i, s := range v.Splits {
		if len(open.files) == 0 {
			open.part.From = i
		}
		for _, f := range s.Files {
			if err := open.add(f, &left); err != nil {
				return nil, err
			}
		}
		open.part.To = i + 1
		if left == 0 && open.rows >= rows {
			out, open = append(out, open), splitRun{}
		}
	}
	if len(open.files) > 0 {
		out = append(out, open)
	}
	if left > 0 {
		return nil, fault.New(fault.Internal, "the plan lacks %d rows of a file", left)
	}
	return out, nil
}

// add adds rows of a file. left is the number of remaining rows of the last file.
func (r *splitRun) add(f plan.FileRange, left *int64) error {
	if *left == 0 {
		r.files, *left = append(r.files, f.File), f.File.Rows
	}
	if last := r.files[len(r.files)-1]; last.Location != f.File.Location || last.Rows-*left != f.From {
		return fault.New(fault.Internal, "the plan interrupts the rows of file %s at row %d", last.Location, last.Rows-*left)
	}
	*left -= f.To - f.From
	r.rows += f.To - f.From
	return nil
}
