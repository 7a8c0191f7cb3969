package dataset

import (
	"fmt"
	"slices"
	"strings"

	"github.com/penstock/penstock/internal/fault"
)

// MaxStaging is the maximum number of staging entries in a dataset, with those that a query adds.
const MaxStaging = 64

// The fields that list entries: of a query, and of a dataset.
const (
	withField    = "with"
	stagingField = "staging"
)

// DatasetOf returns the dataset that a query names or contains, with the entries that the query
// adds to it. It is NotFound if no configured dataset has the name, and Invalid if entries
// cannot be added to it.
func (r Rows) DatasetOf(configured []Dataset) (Dataset, error) {
	if r.Inline != nil {
		return *r.Inline, nil
	}
	names := make([]string, len(configured))
	for i, d := range configured {
		if d.Name == r.Dataset {
			return d.with(r.With)
		}
		names[i] = d.Name
	}
	return Dataset{}, Unknown(r.Dataset, names)
}

// ClientTables returns the names of the tables that a query reads by its own definition, and not
// by that of a configured dataset: those of an inline dataset, and of added entries. A client
// without the right to send inline datasets may send no query that has any.
func (r Rows) ClientTables() []string {
	var out []string
	entries := r.With
	if r.Inline != nil {
		out, entries = append(out, r.Inline.Training.Table), r.Inline.Staging
	}
	for _, s := range entries {
		out = append(out, s.Table)
	}
	return out
}

// with returns the dataset with more entries.
func (d Dataset) with(added []Staging) (Dataset, error) {
	if len(added) == 0 {
		return d, nil
	}
	staging := slices.Clone(d.Staging)
	named := map[string]bool{}
	for _, s := range staging {
		named[s.Name] = true
	}
	var faults []fault.Field
	for i, s := range withDefaults(added, d.Key) {
		at := EntryField(withField, i)
		if named[s.Name] {
			faults = append(faults, fault.Field{Field: fault.FieldPath(at, "name"), Message: fmt.Sprintf("dataset %s already has an entry %q; give this one another name", d.Name, s.Name)})
		}
		if len(s.Key) == 0 {
			faults = append(faults, fault.Field{Field: fault.FieldPath(at, "key"), Message: fmt.Sprintf("missing; name the columns here, since dataset %s has no key", d.Name)})
		}
		staging = append(staging, s)
	}
	if len(staging) > MaxStaging {
		faults = append(faults, fault.Field{Field: withField, Message: fmt.Sprintf("dataset %s would have %d staging tables, more than %d", d.Name, len(staging), MaxStaging)})
	}
	if err := fault.Fields(faults); err != nil {
		return Dataset{}, err
	}
	d.Staging = staging
	return d, nil
}

// EntryField returns the path of an entry in a field that lists entries.
func EntryField(field string, entry int) string { return fmt.Sprintf("%s[%d]", field, entry) }

// WithFields returns an error about a dataset of a number of entries, to which the query added
// some, such that it names those by the query's field: with[0].key instead of staging[3].key.
func (r Rows) WithFields(err error, entries int) error {
	if err == nil || len(r.With) == 0 {
		return err
	}
	out := *fault.As(err)
	out.Faults = slices.Clone(out.Faults)
	for i := range r.With {
		was, is := EntryField(stagingField, entries-len(r.With)+i), EntryField(withField, i)
		out.Message = strings.ReplaceAll(out.Message, was, is)
		for k := range out.Faults {
			if rest, ok := strings.CutPrefix(out.Faults[k].Field, was); ok {
				out.Faults[k].Field = is + rest
			}
		}
	}
	return &out
}
