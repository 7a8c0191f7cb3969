package resolve

import (
	"cmp"
	"slices"
	"strings"

	"github.com/penstock/penstock/internal/bucket"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/dataset"
)

// Propose returns datasets of tables that seem to belong together. A staging table belongs to a
// training table if both are bucketed by columns of the same type and similar names. The result is
// a guess that users can start with; each dataset can be bound.
//
// Tables in a namespace with a name like "features" are staging tables, and the others are training
// tables. If there is no such namespace, one of the tables that belong together is the training
// table: the table with the most rows, according to the function rows.
func Propose(tables []*catalog.Table, rows func(*catalog.Table) int64) []dataset.Dataset {
	p := proposer{tables: tables, rows: rows}
	var out []dataset.Dataset
	for _, t := range p.training() {
		if d, ok := p.dataset(t); ok {
			d.Name = nameAmong(shortName(t.Name), t.Name, func(name string) bool {
				return slices.ContainsFunc(out, func(o dataset.Dataset) bool { return o.Name == name })
			})
			out = append(out, d)
		}
	}
	return out
}

type proposer struct {
	tables []*catalog.Table
	rows   func(*catalog.Table) int64
}

// ofFeatures reports whether a table is in a namespace of features.
func ofFeatures(t *catalog.Table) bool {
	parts := strings.Split(t.Name, ".")
	return slices.ContainsFunc(parts[:len(parts)-1], func(part string) bool {
		part = strings.ToLower(part)
		return strings.HasPrefix(part, "feat") || strings.HasPrefix(part, "staging") || strings.HasPrefix(part, "embedding")
	})
}

// training returns the tables to which others can be joined.
func (p proposer) training() []*catalog.Table {
	features := slices.ContainsFunc(p.tables, ofFeatures)
	var out []*catalog.Table
	left := slices.Clone(p.tables)
	if !features {
		slices.SortStableFunc(left, func(a, b *catalog.Table) int { return cmp.Compare(p.rows(b), p.rows(a)) })
	}
	taken := map[string]bool{}
	for _, t := range left {
		if taken[t.Name] || features && ofFeatures(t) {
			continue
		}
		others := p.staging(t)
		if len(others) == 0 {
			continue
		}
		out = append(out, t)
		if !features {
			for _, s := range others {
				taken[s.Name] = true
			}
		}
	}
	slices.SortFunc(out, func(a, b *catalog.Table) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// staging returns the tables that can be joined to a training table.
func (p proposer) staging(t *catalog.Table) []*catalog.Table {
	features := slices.ContainsFunc(p.tables, ofFeatures)
	var out []*catalog.Table
	for _, s := range p.tables {
		if s != t && (!features || ofFeatures(s)) && len(keyOf(t, s)) > 0 {
			out = append(out, s)
		}
	}
	return out
}

// dataset joins a training table with all staging tables that fit, and returns false if there are
// none. An entry whose column names are taken gets a prefix. An entry that still cannot be bound is
// omitted.
func (p proposer) dataset(t *catalog.Table) (dataset.Dataset, bool) {
	d := dataset.Dataset{Name: shortName(t.Name), Training: dataset.Training{Table: t.Name}}
	var bound []*catalog.Table
	for _, s := range p.staging(t) {
		name := nameAmong(shortName(s.Name), s.Name, func(name string) bool {
			return name == "request" || slices.ContainsFunc(d.Staging, func(o dataset.Staging) bool { return o.Name == name })
		})
		entry := dataset.Staging{Table: s.Name, Name: name, Key: keyOf(t, s)}
		for _, prefix := range []string{"", name + "_"} {
			entry.Prefix = prefix
			with := d
			with.Staging = append(slices.Clone(d.Staging), entry)
			if _, err := Bind(with.Defaults(), t, append(slices.Clone(bound), s)); err == nil {
				d, bound = with, append(bound, s)
				break
			}
		}
	}
	for _, s := range d.Staging {
		if d.Key == nil {
			for _, pair := range s.Key {
				d.Key = append(d.Key, pair.Training)
			}
		}
	}
	return d, len(d.Staging) > 0
}

// keyOf pairs the columns by which both tables are bucketed, each with the column of the most
// similar name. If a feature table has no buckets, a column with the same name is enough.
func keyOf(t, s *catalog.Table) []dataset.KeyPair {
	var pairs []dataset.KeyPair
	used := map[int]bool{}
	candidates, alike := bucketColumns(s), like
	if len(candidates) == 0 && ofFeatures(s) {
		candidates, alike = s.Fields, strings.EqualFold
	}
	for _, key := range bucketColumns(t) {
		best := catalog.Field{}
		for _, f := range candidates {
			if f.Type == nil || used[f.ID] || !bucket.Comparable(key.Type, f.Type) || !alike(key.Name, f.Name) {
				continue
			}
			if best.Name == "" || f.Name == key.Name {
				best = f
			}
		}
		if best.Name != "" {
			used[best.ID] = true
			pairs = append(pairs, dataset.KeyPair{Training: key.Name, Staging: best.Name})
		}
	}
	return pairs
}

// bucketColumns returns the columns by which a table's newest spec buckets.
func bucketColumns(t *catalog.Table) []catalog.Field {
	newest := -1
	for id := range t.Specs {
		newest = max(newest, id)
	}
	var out []catalog.Field
	for _, f := range t.Specs[newest] {
		column, ok := t.ByID(f.Source)
		if ok && column.Type != nil && f.Transform.Kind == catalog.Bucket {
			out = append(out, column)
		}
	}
	return out
}

// like reports whether the names of two columns are similar. They are similar if they are equal
// except for a typo, or if the words of one name are prefixes of the words of the other name, as
// with request_id and req_id.
func like(a, b string) bool {
	if strings.EqualFold(a, b) || fault.Nearest(a, []string{b}) != "" {
		return true
	}
	x, y := strings.Split(strings.ToLower(a), "_"), strings.Split(strings.ToLower(b), "_")
	if len(x) != len(y) || len(x) < 2 {
		return false
	}
	for i := range x {
		if x[i] == "" || y[i] == "" || !strings.HasPrefix(x[i], y[i]) && !strings.HasPrefix(y[i], x[i]) {
			return false
		}
	}
	return true
}

func shortName(table string) string { return table[strings.LastIndexByte(table, '.')+1:] }

// nameAmong returns a short name, or the long name if the short one is taken.
func nameAmong(short, long string, taken func(string) bool) string {
	if !taken(short) {
		return short
	}
	return strings.ReplaceAll(long, ".", "_")
}
