package policy

import (
	"slices"
	"strings"

	"github.com/penstock/penstock/loader/dataset"
)

// Seen is an error that only contains what the client may read.
type Seen struct{ error }

// AsSeen marks an error, which may be nil.
func AsSeen(err error) error {
	if err == nil {
		return nil
	}
	return Seen{err}
}

// Unwrap returns the error.
func (s Seen) Unwrap() error { return s.error }

// Rights are what a client may read of a dataset, and do with it. The zero value is everything: Policy returns no rights at
// all to a client that may do nothing.
type Rights struct {
	names  Names
	allow  []Permission
	tables map[string]TableLimits // by full name in lower case
	bound  bool                   // by a rule: only what allow has is allowed
}

// rights returns the rights of a rule.
func (p *Policy) rights(r AccessRule) Rights {
	out := Rights{names: p.Names, allow: r.Allow, bound: true, tables: map[string]TableLimits{}}
	for _, t := range r.Tables {
		out.tables[out.key(t.Name)] = t
	}
	return out
}

// key is a table's name in Rights.tables. Some catalogs do not distinguish cases: a name in another case is no way around.
func (r Rights) key(table string) string { return strings.ToLower(r.names.Full(table)) }

// Of returns the limits of a table that a dataset names.
func (r Rights) Of(table string) TableLimits { return r.tables[r.key(table)] }

// Others returns the tables with limits whose names are not among the given ones. A catalog may know such a table by one
// of these names too, as table@branch, for example.
func (r Rights) Others(names []string) []string {
	var out []string
	for key, limits := range r.tables {
		if !limits.IsZero() && !slices.ContainsFunc(names, func(name string) bool { return r.key(name) == key }) {
			out = append(out, limits.Name)
		}
	}
	slices.Sort(out)
	return out
}

// May reports whether an action is allowed on the dataset.
func (r Rights) May(action Permission) bool { return !r.bound || slices.Contains(r.allow, action) }

// Limits reports whether columns or rows of a dataset may not be read.
func (r Rights) Limits(d dataset.Dataset) bool {
	return slices.ContainsFunc(tablesOf(d), func(table string) bool { return !r.Of(table).IsZero() })
}

// Filtered returns a dataset whose own filters include those of the rights, so that it is another dataset wherever its rows
// matter: in plans, build sides and cursors.
func (r Rights) Filtered(d dataset.Dataset) dataset.Dataset {
	d.Training.Filter = d.Training.Filter.And(r.Of(d.Training.Table).Filter)
	d.Staging = slices.Clone(d.Staging)
	for i, s := range d.Staging {
		d.Staging[i].Filter = s.Filter.And(r.Of(s.Table).Filter)
	}
	return d
}
