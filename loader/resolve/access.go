package resolve

import (
	"fmt"
	"slices"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock/penstock/internal/expr"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/policy"
)

// hidden contains the field ids of the columns that a client may not read. The zero value hides no
// columns.
type hidden struct {
	training map[int]bool
	staging  []map[int]bool // for each entry; nil: no columns are hidden
}

// of returns the hidden columns of a staging entry, or of TrainingTable.
func (h hidden) of(table int) map[int]bool {
	switch {
	case table == TrainingTable:
		return h.training
	case table < len(h.staging):
		return h.staging[table]
	}
	return nil
}

// BindFor is like Bind, for a client with the given rights. Withheld columns are not outputs, and
// no name in the client's query resolves to a withheld column. A configured dataset may join by
// withheld columns; a dataset that the client sent is bound as if the tables did not have them. The
// filters of the rights are added to the filters of the tables and of the relation's dataset. If
// the rights limit the dataset, promoted entries are joined, so that the rights to their tables
// apply. Since lists may be fitted to withheld values, names in the client's query do not mean fitted lists then.
func BindFor(d dataset.Dataset, training *catalog.Table, staging []*catalog.Table, rights policy.Rights) (*Relation, error) {
	if !Limited(d, training, rights) {
		return Bind(d, training, staging)
	}
	h, err := hide(d, training, staging, rights)
	if err != nil {
		return nil, err
	}
	promotions, now := Promotions(d, training), training
	training = unpromoted(d, training, staging, append(slices.Clip(promotions), limitedColumns(training, promotions, rights)))
	if err := sameFilter(now, training, rights.Of(d.Training.Table)); err != nil {
		return nil, err
	}
	seenTraining, seenStaging := training, slices.Clone(staging)
	if d.Name == "" {
		seenTraining = without(training, h.training)
		for i := range staging {
			seenStaging[i] = without(staging[i], h.of(i))
		}
		if err := h.checkAligned(d, training, staging); err != nil {
			return nil, err
		}
	}
	r, err := Bind(d, seenTraining, seenStaging)
	if err != nil && d.Name == "" {
		return nil, policy.AsSeen(err)
	}
	if err != nil {
		return nil, err
	}
	r.hidden, r.Dataset, r.Training, r.lists = h, rights.Filtered(d), training, r.lists.Unnamed()
	if r.Filter, err = filtered(r.Filter, training, rights.Of(d.Training.Table)); err != nil {
		return nil, err
	}
	for i := range r.Staging {
		s := &r.Staging[i]
		s.Staging, s.Pinned = r.Dataset.Staging[i], staging[i]
		if s.Rows, err = filtered(s.Rows, staging[i], rights.Of(s.Table)); err != nil {
			return nil, err
		}
	}
	r.Outputs = slices.DeleteFunc(slices.Clone(r.Outputs), func(all Output) bool {
		return slices.ContainsFunc(Leaves([]Output{all}), func(o Output) bool {
			return r.hidesOutput(o) || o.Table != TrainingTable && hidesPromoted(promotions[o.Table], o.Name, h.training)
		})
	})
	return r, nil
}

// Limited reports whether the rights forbid to read any columns or rows of a dataset. This includes
// values of other tables that promotions copied to the dataset's training table.
func Limited(d dataset.Dataset, training *catalog.Table, rights policy.Rights) bool {
	return rights.Limits(d) || len(limitedColumns(training, nil, rights).Columns) > 0
}

// limitedColumns returns the columns of the training table that were promoted from tables which the
// rights limit, except the columns of the given promotions. A client with these rights reads the
// training table as it was before these columns were promoted, since the limits of a table also
// apply to copies of its values.
func limitedColumns(training *catalog.Table, promotions []*Promotion, rights policy.Rights) *Promotion {
	out := &Promotion{}
	for _, f := range training.Fields {
		if !ofPromotions(promotions, f.ID) && limitedOrigin(training, f.ID, rights) {
			out.Columns = append(out.Columns, unnamed(f, training.Origins[f.ID]))
		}
	}
	return out
}

// limitedOrigin reports whether a column, or a column that it replaced, was promoted from a table
// which the rights limit.
func limitedOrigin(training *catalog.Table, id int, rights policy.Rights) bool {
	o, ok := training.Origins[id]
	return ok && (!rights.Of(o.Table).IsZero() || limitedOrigin(training, o.Replaces, rights))
}

// hidesPromoted reports whether the client may not read the column of the training table that has the values of an entry's column.
func hidesPromoted(p *Promotion, name string, hidden map[int]bool) bool {
	return slices.ContainsFunc(promotedColumns(p), func(c PromotedColumn) bool { return c.Origin.Name == name && hidden[c.ID] })
}

// sameFilter returns an error if a policy's filter has a name that means one column in the training
// table now, and another column in the table before promotions. Otherwise clients could choose, by
// the dataset that they send, which of the two columns the filter uses.
func sameFilter(now, before *catalog.Table, limits policy.TableLimits) error {
	if limits.Filter.IsZero() {
		return nil
	}
	for _, name := range limits.Filter.Expr().Columns() {
		is, _ := now.Field(name)
		was, _ := before.Field(name)
		if is.ID != was.ID {
			return unfit(fault.New(fault.Invalid, "the policy's filter names column %s of table %s, which was promoted from an entry of the dataset", name, now.Name))
		}
	}
	return nil
}

// hide returns the hidden columns of a dataset's tables. Each withheld name must be the name of a
// column in some schema of its table. Otherwise a misspelled name would withhold nothing.
func hide(d dataset.Dataset, training *catalog.Table, staging []*catalog.Table, rights policy.Rights) (hidden, error) {
	h := hidden{staging: make([]map[int]bool, len(staging))}
	var err error
	if h.training, err = Hide(training, rights.Of(d.Training.Table)); err != nil {
		return h, unfit(err)
	}
	for i, t := range staging {
		if h.staging[i], err = Hide(t, rights.Of(d.Staging[i].Table)); err != nil {
			return h, unfit(err)
		}
	}
	return h, nil
}

// Hide returns the field ids of the columns of a table that a policy withholds. These are the
// columns that have a withheld name in any schema of the table, since a client can choose an older
// schema. For a name that no schema has, Hide returns Invalid with the field "withheld".
func Hide(t *catalog.Table, limits policy.TableLimits) (map[int]bool, error) {
	ids := map[int]bool{}
	for _, name := range limits.Withheld {
		found := false
		for _, f := range slices.Concat(t.Fields, t.Lineage) {
			if f.Name == name {
				ids[f.ID], found = true, true
			}
		}
		for _, o := range t.OtherNames {
			if o.Name == name {
				ids[o.ID], found = true, true
			}
		}
		if !found {
			return nil, fault.Fields([]fault.Field{{Field: "withheld", Message: fmt.Sprintf("table %s has no column %q", t.Name, name), Nearest: fault.Nearest(name, t.Names())}})
		}
	}
	return ids, nil
}

// VisibleTable returns a table as a client with the rights reads it, and the field ids of the columns that it may not read. The
// table is given by the name that the client used. Columns that were promoted from tables which the rights limit are left out, as in
// datasets. Errors: Forbidden if the client may not read all rows, or if the rights do not fit the table.
func VisibleTable(name string, t *catalog.Table, rights policy.Rights) (*catalog.Table, map[int]bool, error) {
	limits, promoted := rights.Of(name), limitedColumns(t, nil, rights)
	if !limits.Filter.IsZero() {
		return nil, nil, fault.New(fault.Forbidden, "this client may not read all rows of table %s", name).WithRemedy("name a dataset that has the table")
	}
	ids, err := Hide(t, limits)
	if err != nil {
		return nil, nil, unfit(err)
	}
	for _, c := range promoted.Columns {
		ids[c.ID] = true
	}
	return unpromoted(dataset.Dataset{}, t, nil, []*Promotion{promoted}), ids, nil
}

// BindRows types the filter that a policy sets for a table. It returns Invalid with the field
// "filter" if the filter does not fit the table, or if it names a column of an older schema whose
// name now belongs to another column.
func BindRows(t *catalog.Table, limits policy.TableLimits) (*expr.Filter, error) {
	if limits.Filter.IsZero() {
		return nil, nil //nolint:nilnil // a nil Filter passes every row
	}
	conjuncts, err := BindConjuncts(limits.Filter, t.Schema(), "filter")
	if err != nil {
		return nil, err
	}
	for _, name := range limits.Filter.Expr().Columns() {
		f, _ := t.Field(name)
		if slices.ContainsFunc(t.OtherNames, func(o catalog.OtherName) bool { return o.Current && o.Name == name && o.ID != f.ID }) {
			return nil, fault.InvalidField("filter", "the name %q of a column of table %s refers to another column in the schema that is read", name, t.Name)
		}
	}
	return expr.All(conjuncts...), nil
}

// filtered adds a policy's filter to the filter of a table, which a client may have written. Computed
// conditions are evaluated in this order, so that those of the client see only its rows.
func filtered(own *expr.Filter, t *catalog.Table, limits policy.TableLimits) (*expr.Filter, error) {
	rows, err := BindRows(t, limits)
	if err != nil {
		return nil, unfit(err)
	}
	return expr.All(rows, own), nil
}

// unfit returns the error for a policy that does not fit a table. Its message reveals nothing about
// the policy.
func unfit(err error) error {
	e := fault.New(fault.Forbidden, "the dataset cannot be read under the server's policy").WithRemedy("ask the operator of the server, whose log says why")
	e.Err = err
	return e
}

// without returns a copy of a table without some columns.
func without(t *catalog.Table, ids map[int]bool) *catalog.Table {
	if len(ids) == 0 {
		return t
	}
	out := *t
	var names []string
	out.Fields = slices.DeleteFunc(slices.Clone(t.Fields), func(f catalog.Field) bool {
		if ids[f.ID] {
			names = append(names, f.Name)
		}
		return ids[f.ID]
	})
	out.Lineage = slices.DeleteFunc(slices.Clone(t.Lineage), func(f catalog.Field) bool { return ids[f.ID] })
	out.Nested = slices.DeleteFunc(slices.Clone(t.Nested), func(f catalog.Field) bool {
		return slices.ContainsFunc(names, func(name string) bool { return strings.HasPrefix(f.Name, name+".") })
	})
	return &out
}

// checkAligned refuses a client's alignment by a hidden column, or by a partition field of a hidden
// column. The error is the same as for a field that does not exist.
func (h hidden) checkAligned(d dataset.Dataset, training *catalog.Table, staging []*catalog.Table) error {
	for i, s := range d.Staging {
		if s.Align != nil && (partitionOf(training, h.training, s.Align.Training) || partitionOf(staging[i], h.of(i), s.Align.Staging)) {
			return fault.New(fault.Invalid, "partitions of staging[%d] cannot be aligned by these columns", i)
		}
	}
	return nil
}

// partitionOf reports whether a name is the name of a hidden column, or of a partition field of a
// hidden column.
func partitionOf(t *catalog.Table, ids map[int]bool, name string) bool {
	if has(t, name) && !has(without(t, ids), name) {
		return true
	}
	for _, spec := range t.Specs {
		if slices.ContainsFunc(spec, func(p catalog.PartitionField) bool { return p.Name == name && ids[p.Source] }) {
			return true
		}
	}
	return false
}

func has(t *catalog.Table, name string) bool {
	_, ok := t.Field(name)
	return ok
}

// hides reports whether the client may not read a column of a staging entry or of TrainingTable.
func (r *Relation) hides(table int, f catalog.Field) bool { return r.hidden.of(table)[f.ID] }

// hidesOutput reports whether an output of a table would reveal values of hidden columns. It would if it
// contains such values, or if its values are equal to them: a staging key equals the training
// column that it is joined to.
func (r *Relation) hidesOutput(o Output) bool {
	from := append(slices.Clone(o.Overlays), Overlay{Table: o.Table, Field: o.Field})
	return !o.Matched && slices.ContainsFunc(from, func(one Overlay) bool {
		return r.hides(one.Table, one.Field) || one.Table != TrainingTable && slices.ContainsFunc(r.Staging[one.Table].Keys, func(k Key) bool {
			return k.Staging.ID == one.Field.ID && r.hides(TrainingTable, k.Training)
		})
	})
}

// Withholds reports whether the client may not read a training column.
func (r *Relation) Withholds(f catalog.Field) bool { return r.hides(TrainingTable, f) }

// TrainingSchema returns the columns of the training table that the client may read.
func (r *Relation) TrainingSchema() *arrow.Schema {
	return without(r.Training, r.hidden.training).Schema()
}

// Withheld identifies the columns that the client may not read. Plans for clients with different
// rights may have the same id and read different columns. The result is nil if the client may read
// all columns.
func (r *Relation) Withheld() []string {
	if r == nil {
		return nil
	}
	var out []string
	for table := TrainingTable; table < len(r.hidden.staging); table++ {
		for id := range r.hidden.of(table) {
			out = append(out, fmt.Sprintf("%d:%d", table, id))
		}
	}
	slices.Sort(out)
	return out
}
