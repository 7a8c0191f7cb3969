package resolve

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/dataset"
)

// Promotion describes how a staging entry was promoted to a training table: in which columns the
// values of the entry are stored, and from which snapshot of the staging table they were copied.
type Promotion struct {
	Pin     dataset.TablePin // the pin of the staging table
	Columns []PromotedColumn // in the order in which the entry offers them
}

// PromotedColumn is a column of the training table that has the values of a column of a staging entry.
type PromotedColumn struct {
	catalog.Field // its name is a name that no other column has; it is required if the join would return no nulls for it
	Origin        dataset.ColumnOrigin
}

// Promotions returns the promotion of each entry of a dataset, or nil for an entry that is only
// joined. It finds promotions in the documentation of the training table's columns. An entry is
// promoted if three conditions hold. First, the training table has all columns that a promotion of
// an entry with this name and definition has made. Second, none of these columns is Partial. Third,
// if a column of this promotion has replaced, or was replaced by, a column of another promotion,
// the other promotion is that of a promoted entry of the dataset, and the entries are in the same
// order.
func Promotions(d dataset.Dataset, training *catalog.Table) []*Promotion {
	out := make([]*Promotion, len(d.Staging))
	if len(training.Origins) == 0 {
		return out
	}
	for i, s := range d.Staging {
		out[i] = promotionOf(s, d.Key, training)
	}
	for again := true; again; {
		again = false
		for i, p := range out {
			if p != nil && slices.ContainsFunc(p.Columns, func(c PromotedColumn) bool {
				return replacedByOthers(training, out, c) || replacesOthers(training, out[:i], c)
			}) {
				out[i], again = nil, true
			}
		}
	}
	return out
}

// PromotedNames returns the names of the promoted entries of a dataset.
func PromotedNames(d dataset.Dataset, training *catalog.Table) []string {
	var names []string
	for i, p := range Promotions(d, training) {
		if p != nil {
			names = append(names, d.Staging[i].Name)
		}
	}
	return names
}

// promotionOf returns the promotion of an entry in a dataset with a key, or nil.
func promotionOf(s dataset.Staging, key []string, training *catalog.Table) *Promotion {
	var p *Promotion
	digest := s.PromotionDigest(key)
	for _, f := range training.Fields {
		o, ok := training.Origins[f.ID]
		if !ok || o.Entry != s.Name || o.Table != s.Table || o.Definition != digest {
			continue
		}
		_, replaced := replacement(training, f.ID)
		if p == nil {
			p = &Promotion{Pin: o.TablePin}
		}
		if first := p.Columns; len(first) > 0 && first[0].Origin.Promotion != o.Promotion || f.Name != o.Name && !replaced || training.Partial[f.ID] {
			return nil // the entry was promoted twice, another program renamed a column, or a file lacks the column
		}
		if f.Name, f.Required = o.Name, !o.Nullable; o.Replaces != 0 { // filters read the replaced column under its name
			f.Name = fmt.Sprintf("%s__promoted_%d", o.Name, f.ID)
		}
		p.Columns = append(p.Columns, PromotedColumn{f, o})
	}
	if p == nil || len(p.Columns) != p.Columns[0].Origin.Columns {
		return nil // another program dropped a column
	}
	slices.SortFunc(p.Columns, func(a, b PromotedColumn) int { return a.ID - b.ID })
	return p
}

// replacement returns the column with which a promotion replaced the given column, or false.
func replacement(t *catalog.Table, id int) (by catalog.Field, ok bool) {
	i := slices.IndexFunc(t.Fields, func(f catalog.Field) bool {
		o, promoted := t.Origins[f.ID]
		return promoted && o.Replaces == id
	})
	if i < 0 {
		return catalog.Field{}, false
	}
	return t.Fields[i], true
}

// replacedByOthers reports whether a promoted column was replaced by a column that does not belong
// to the given promotions.
func replacedByOthers(t *catalog.Table, promotions []*Promotion, c PromotedColumn) bool {
	by, ok := replacement(t, c.ID)
	return ok && !ofPromotions(promotions, by.ID)
}

// unpromoted returns the training table as a dataset reads it. Two kinds of promoted columns cannot
// be found by name: the columns of the dataset's promotions, and the columns that entries of the
// dataset supersede because they are joined. Columns that such columns replaced have their names
// again.
func unpromoted(d dataset.Dataset, training *catalog.Table, staging []*catalog.Table, promotions []*Promotion) *catalog.Table {
	if len(training.Origins) == 0 {
		return training
	}
	return before(training, append(slices.Clip(promotions), superseded(d, training, staging, promotions)))
}

// superseded returns the promoted columns of the training table for which the dataset uses joined
// values instead. It has entries that offer these columns, but that are joined, because their
// definitions differ from the definition that was promoted, or because files lack the columns. An
// entry with `join: left` supersedes columns that were promoted from the same table. An overlay
// supersedes them only if the promoted entry also had the same name; other overlays replace
// promoted values.
func superseded(d dataset.Dataset, training *catalog.Table, staging []*catalog.Table, promotions []*Promotion) *Promotion {
	out := &Promotion{}
	for i, s := range d.Staging {
		if promotions[i] != nil {
			continue
		}
		for _, name := range columnNames(s, staging[i]) {
			f, ok := training.Field(name)
			if !ok || ofPromotions(promotions, f.ID) || !promotedFrom(training, f.ID, s) {
				continue
			}
			for ok {
				o, promoted := training.Origins[f.ID]
				if !promoted {
					break
				}
				out.Columns = append(out.Columns, unnamed(f, o))
				f, ok = training.ByID(o.Replaces)
			}
		}
	}
	return out
}

// unnamed returns a promoted column under a name that no other column has.
func unnamed(f catalog.Field, o dataset.ColumnOrigin) PromotedColumn {
	f.Name = fmt.Sprintf("%s__promoted_%d", o.Name, f.ID)
	return PromotedColumn{f, o}
}

// columnNames returns the names of the columns that an entry adds to a dataset.
func columnNames(s dataset.Staging, t *catalog.Table) []string {
	var out []string
	switch {
	case !s.Join.Adds():
		return nil
	case s.Columns != nil:
		for _, c := range s.Columns {
			out = append(out, cmp.Or(c.Name, s.Prefix+c.Column))
		}
	default:
		for _, f := range t.Fields {
			if !slices.ContainsFunc(s.Key, func(k dataset.KeyPair) bool { return k.Staging == f.Name }) {
				out = append(out, s.Prefix+f.Name)
			}
		}
	}
	if s.MatchedAs != "" {
		out = append(out, s.MatchedAs)
	}
	return out
}

// ofPromotions reports whether a column belongs to one of the given promotions.
func ofPromotions(promotions []*Promotion, id int) bool {
	return slices.ContainsFunc(promotions, func(p *Promotion) bool {
		return slices.ContainsFunc(promotedColumns(p), func(c PromotedColumn) bool { return c.ID == id })
	})
}

// promotedFrom reports whether a training column, or a column that it replaced, has the values of
// an earlier definition of an entry.
func promotedFrom(t *catalog.Table, id int, s dataset.Staging) bool {
	for {
		o, ok := t.Origins[id]
		if !ok {
			return false
		}
		if o.Table == s.Table && (o.Entry == s.Name || !s.Join.Replaces()) {
			return true
		}
		id = o.Replaces
	}
}

// replacesOthers reports whether a promoted column replaced a promoted column that does not belong
// to the given promotions.
func replacesOthers(t *catalog.Table, earlier []*Promotion, c PromotedColumn) bool {
	_, promoted := t.Origins[c.Origin.Replaces]
	return promoted && !ofPromotions(earlier, c.Origin.Replaces)
}

// before returns the training table as it was before promotions: promoted columns cannot be found
// by their names, and columns that they replaced have their names again.
func before(t *catalog.Table, promotions []*Promotion) *catalog.Table {
	names := map[int]string{} // by field id; "": the column has no name
	unnamed := slices.Clone(t.Unnamed)
	for _, p := range promotions {
		for _, c := range promotedColumns(p) {
			names[c.ID] = ""
			unnamed = append(unnamed, c.Field)
		}
	}
	if len(names) == 0 {
		return t
	}
	for _, p := range promotions {
		for _, c := range promotedColumns(p) {
			if _, promoted := names[c.Origin.Replaces]; !promoted {
				names[c.Origin.Replaces] = c.Origin.Name
			}
		}
	}
	out := t.Renamed(names)
	out.Unnamed = unnamed
	return out
}

// BeforeColumn returns a training table as it was before the promotion that made the column with the
// given field id, and before all later promotions. Columns that these promotions made cannot be
// found by name, and columns that they replaced have their names again.
func BeforeColumn(t *catalog.Table, id int) *catalog.Table {
	of, p := t.Origins[id].Promotion, &Promotion{}
	for _, f := range t.Fields {
		if o, ok := t.Origins[f.ID]; ok && (o.Promotion == of || f.ID > id) { // later promotions have higher ids
			p.Columns = append(p.Columns, unnamed(f, o))
		}
	}
	return before(t, []*Promotion{p})
}

func promotedColumns(p *Promotion) []PromotedColumn {
	if p == nil {
		return nil
	}
	return p.Columns
}

// TableFor returns a table for an entry that can be read from the training table: the entry's table
// at the pin of its promotion, without columns and files. given is the pin that a query requires.
// If it is neither zero nor the pin of the promotion, TableFor returns nil.
func (p *Promotion) TableFor(s dataset.Staging, given dataset.TablePin) *catalog.Table {
	if p == nil || given != (dataset.TablePin{}) && given != p.Pin && given != (dataset.TablePin{Snapshot: p.Pin.Snapshot}) {
		return nil
	}
	return &catalog.Table{Name: s.Table, Pin: p.Pin}
}

// promoted adds the outputs of an entry whose values the training table has.
func (b *binder) promoted(r *Relation, entry int, fixed map[int]string) {
	s := &r.Staging[entry]
	at := fmt.Sprintf("staging[%d]", entry)
	defaults := b.defaultsOf(s, at)
	for _, c := range s.Promoted {
		if c.Origin.Replaces != 0 {
			b.promotedOverlay(r, s, c, fixed, at)
			continue
		}
		r.Outputs = append(r.Outputs, Output{
			Name: c.Origin.Name, Table: entry, Field: c.Field, Null: c.Origin.Nullable, Promoted: true, missing: defaults[c.Origin.Name],
		})
	}
}

// promotedOverlay makes a promoted column replace the training column of the same name.
func (b *binder) promotedOverlay(r *Relation, s *Staging, c PromotedColumn, fixed map[int]string, at string) {
	o := Output{Name: c.Origin.Name, Table: TrainingTable, Field: c.Field, Null: c.Origin.Nullable, Promoted: true}
	i := slices.IndexFunc(r.Outputs, func(t Output) bool { return t.Table == TrainingTable && t.Name == o.Name })
	if i < 0 { // another program dropped the column
		end := slices.IndexFunc(r.Outputs, func(t Output) bool { return t.Table != TrainingTable })
		if end < 0 {
			end = len(r.Outputs)
		}
		r.Outputs = slices.Insert(r.Outputs, end, o)
		return
	}
	replaced := r.Outputs[i]
	switch use := fixed[replaced.Field.ID]; {
	case use != "":
		b.fault(at, "", "column %q of %s is %s, and the promoted entry %s replaced it: remove the entry, whose values the column has", o.Name, r.Training.Name, use, s.Name)
	case len(replaced.Overlays) > 0:
		b.fault(at, "", "column %q was promoted from entry %s, and entry %s comes before it: move %s after it", o.Name, s.Name,
			r.Staging[replaced.Overlays[0].Table].Name, r.Staging[replaced.Overlays[0].Table].Name)
	}
	o.Null = replaced.Null || o.Null
	r.Outputs[i] = o
}

// promotedLater explains a name that is a promoted column in another schema of the training table. The result is the end of a
// sentence, or "".
func (r *Relation) promotedLater(name string) string {
	for _, o := range r.Training.OtherNames {
		if o.Name == name && o.Entry != "" && !r.hidden.training[o.ID] {
			return fmt.Sprintf(" at this snapshot of %s: it was promoted from entry %s of table %s; give the query that entry as it was promoted, in with",
				r.Training.Name, o.Entry, o.Table)
		}
	}
	return ""
}
