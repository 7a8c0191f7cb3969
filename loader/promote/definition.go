package promote

import (
	"context"
	"slices"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock/penstock/internal/digest"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/joiner/rule"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/catalog/commit"
	"github.com/penstock/penstock/loader/datafile"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/resolve"
)

// definition defines a promotion: the entries, the snapshots of their tables, and the new columns.
type definition struct {
	// dataset has the unfiltered training table and the promoted entries. It omits the rules that
	// could fail on deleted rows.
	dataset dataset.Dataset
	// checked is the original dataset, reduced to the promoted entries. Its filter and rules are
	// unchanged.
	checked dataset.Dataset
	pins    map[string]dataset.TablePin // snapshots of the staging tables, by entry
	columns []newColumn
	id      string
	attempt int // number of restarts with the same snapshots
}

// newColumn is a column to add to the training table.
type newColumn struct {
	name     string // in the dataset and in the table
	entry    string
	typed    arrow.DataType // in the result of the join
	uuid     bool
	nullable bool
	replaces int // field id of the column that it replaces; 0: none
	source   string

	column commit.NewColumn // once ids are assigned
	stored arrow.DataType   // with field ids
}

// chosenEntries returns the named entries of a dataset, in the dataset's order, or an error if one
// cannot be promoted. The dataset's defaults must be set.
func (t trainingTable) chosenEntries(d dataset.Dataset, names []string) ([]dataset.Staging, error) {
	chosen, err := d.Promoted(names, resolve.PromotedNames(d, t.named()))
	if err != nil {
		return nil, err
	}
	for _, s := range chosen {
		if err := promotable(s); err != nil {
			return nil, err
		}
	}
	return chosen, nil
}

// promotable returns an error for an entry that does not give each training row one value.
func promotable(s dataset.Staging) error {
	switch {
	case !s.Join.Fills():
		return fault.InvalidField("entries", "entry %s is %s join, which drops training rows or adds no columns", s.Name, s.Join.Article()).
			WithRemedy("promote left and overlay entries; keep this one in the dataset")
	case s.Duplicates.Multiply():
		return fault.InvalidField("entries", "entry %s repeats training rows: duplicates is %s", s.Name, s.Duplicates).
			WithRemedy("choose one row of each key: set duplicates to first or last")
	}
	return nil
}

// hasUUID reports whether a field inside a nested type has one of the given ids.
func hasUUID(t arrow.DataType, ids []int) bool {
	nested, ok := t.(arrow.NestedType)
	if !ok {
		return false
	}
	return slices.ContainsFunc(nested.Fields(), func(f arrow.Field) bool { return slices.Contains(ids, fieldID(f)) || hasUUID(f.Type, ids) })
}

// defining resolves a promotion request for a training table.
type defining struct {
	*Promoter
	trainingTable
	tables  PromotedTables // the training table's catalog
	request PromotionRequest
}

// define resolves the entries of the request. It reads the staging tables at pins, the snapshots of
// an earlier promotion, or at their current snapshots if pins is nil.
func (p *defining) define(ctx context.Context, pins map[string]dataset.TablePin) (*definition, error) {
	d := p.request.Dataset.Defaults()
	chosen, err := p.chosenEntries(d, p.request.Entries)
	if err != nil {
		return nil, err
	}
	out := &definition{checked: d, pins: map[string]dataset.TablePin{}}
	out.checked.Staging, out.checked.Computed, out.checked.Fitted, out.checked.Name = chosen, nil, nil, ""
	out.dataset = dataset.Dataset{Training: dataset.Training{Table: d.Training.Table}, Key: d.Key}
	for _, s := range chosen {
		s.MinMatch, s.AnyMatch = 0, true
		if s.Missing.Fail() {
			s.Missing = rule.MissingNull
		}
		out.dataset.Staging = append(out.dataset.Staging, s)
	}
	tables := make([]*catalog.Table, len(chosen))
	for i, s := range chosen {
		if tables[i], err = p.staging(ctx, s, pins); err != nil {
			return nil, fault.Op(err, "staging table %s", s.Name)
		}
		out.pins[s.Name] = tables[i].Pin
	}
	relation, err := resolve.Bind(out.dataset, p.named(), tables)
	if err != nil {
		return nil, err
	}
	if err := p.outputs(ctx, out, relation); err != nil {
		return nil, err
	}
	out.id = identity(p.state.Table.Pin.UUID, out, 0)
	return out, nil
}

// staging opens an entry's table at its pin, or at its ref if it has no pin.
func (p *defining) staging(ctx context.Context, s dataset.Staging, pins map[string]dataset.TablePin) (*catalog.Table, error) {
	of, name, err := p.options.Route(s.Table)
	if err != nil {
		return nil, err
	}
	if of == p.tables && name == p.table {
		return nil, fault.InvalidField("entries", "entry %s joins the training table with itself", s.Name).
			WithRemedy("promote entries of other tables")
	}
	if pin, ok := pins[s.Name]; ok {
		return p.options.Catalog.At(ctx, s.Table, pin)
	}
	return p.options.Catalog.Table(ctx, s.Table, s.Ref)
}

// outputs sets the columns of a definition.
func (p *defining) outputs(ctx context.Context, d *definition, r *resolve.Relation) error {
	for _, o := range r.Outputs {
		if len(o.Overlays) > 1 {
			first, second := r.Staging[o.Overlays[0].Table].Name, r.Staging[o.Overlays[1].Table].Name
			return fault.InvalidField("entries", "entries %s and %s both overlay column %s, but a promoted column comes from one entry", first, second, o.Name).
				WithRemedy("promote %s first, and then %s", first, second)
		}
		entry, source := o.Table, o.Field
		replaces := 0
		if n := len(o.Overlays); n > 0 {
			entry, source, replaces = o.Overlays[n-1].Table, o.Overlays[n-1].Field, o.Field.ID
		}
		if entry == resolve.TrainingTable {
			continue
		}
		s := r.Staging[entry]
		if err := p.servable(s, o, source, replaces); err != nil {
			return err
		}
		c := newColumn{name: o.Name, entry: s.Name, typed: o.Type(), nullable: o.Null, replaces: replaces, source: source.Name}
		if !o.Matched && arrow.TypeEqual(c.typed, source.Type) {
			uuids, err := p.uuids(ctx, s, c.typed)
			if err != nil {
				return err
			}
			if c.uuid = slices.Contains(uuids, source.ID); !c.uuid && source.Stored != nil && hasUUID(source.Stored, uuids) {
				return fault.InvalidField("entries", "column %s of entry %s has uuids inside lists, maps or structs, which are not promoted by this version", o.Name, s.Name).
					WithRemedy("leave the column out of the entry's columns")
			}
		}
		d.columns = append(d.columns, c)
	}
	if len(d.columns) == 0 {
		return fault.InvalidField("entries", "entries %s have no columns", strings.Join(p.request.Entries, ", ")).
			WithRemedy("name entries that add columns to the dataset")
	}
	return nil
}

// servable returns an error if a column cannot be added to the table.
func (p *defining) servable(s resolve.Staging, o resolve.Output, source catalog.Field, replaces int) error {
	if o.Type().ID() == arrow.NULL || !o.Matched && source.Type.ID() == arrow.NULL {
		return fault.InvalidField("entries", "column %s of entry %s is of a type that is not supported by this version", o.Name, s.Name).
			WithRemedy("leave the column out of the entry's columns")
	}
	if p.partitioned(o.Name) && replaces == 0 {
		return fault.InvalidField("entries", "column %s of entry %s has the name of a partition field of the table, which other engines refuse", o.Name, s.Name).
			WithRemedy("rename the column in the entry's columns")
	}
	return nil
}

// uuids returns the field ids of a staging table's uuids, or nil if the type cannot contain a uuid.
func (p *defining) uuids(ctx context.Context, s resolve.Staging, of arrow.DataType) ([]int, error) {
	if _, nested := of.(arrow.NestedType); !nested && of.ID() != arrow.FIXED_SIZE_BINARY {
		return nil, nil
	}
	tables, name, err := p.options.Route(s.Table)
	if err != nil {
		return nil, err
	}
	state, err := tables.State(ctx, name, commit.Main)
	if err != nil {
		return nil, err
	}
	return state.UUIDs, nil
}

// number assigns the columns field ids above the table's highest.
func (d *definition) number(state *commit.TableState) error {
	last := state.LastColumn
	for i := range d.columns {
		c := &d.columns[i]
		var err error
		c.column, c.stored, err = datafile.NumberColumn(arrow.Field{Name: c.name, Type: c.typed, Nullable: true}, c.uuid, last, state.Version)
		if err != nil {
			return fault.Op(err, "column %s", c.name)
		}
		last = highestID(c.column.ID, c.stored)
	}
	return nil
}

// columnsOf returns the number of columns of an entry.
func (d *definition) columnsOf(entry string) (n int) {
	for _, c := range d.columns {
		if c.entry == entry {
			n++
		}
	}
	return n
}

// identityDigits is the length of the id of a promotion.
const identityDigits = 16

// identity returns the id of an attempt of a promotion.
func identity(uuid string, d *definition, attempt int) string {
	id := digest.Of(struct {
		uuid, dataset string
		pins          map[string]dataset.TablePin
	}{uuid, string(d.dataset.Canonical()), d.pins})
	if attempt > 0 {
		id = digest.Of(struct {
			of      string
			attempt int
		}{id, attempt})
	}
	return id[:identityDigits]
}
