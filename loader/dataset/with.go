package dataset

import (
	"bytes"
	"encoding/json"
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
// adds to it, and how many of its last entries these are: an entry that the configured dataset has
// itself is not added. It is NotFound if no configured dataset has the name, and Invalid if
// entries cannot be added to it.
func (r Rows) DatasetOf(configured []Dataset) (d Dataset, added int, err error) {
	if r.Inline != nil {
		return *r.Inline, 0, nil
	}
	names := make([]string, len(configured))
	for i, d := range configured {
		if d.Name == r.Dataset {
			all, err := d.with(r.With)
			return all, len(all.Staging) - len(d.Staging), err
		}
		names[i] = d.Name
	}
	return Dataset{}, 0, Unknown(r.Dataset, names)
}

// GivesEntry reports whether the query itself has an entry of a name, be it one that its dataset has, too.
func (r Rows) GivesEntry(name string) bool {
	return slices.ContainsFunc(r.With, func(s Staging) bool { return s.Name == name })
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

// with returns the dataset with those entries that it does not have.
func (d Dataset) with(added []Staging) (Dataset, error) {
	if len(added) == 0 {
		return d, nil
	}
	staging := slices.Clone(d.Staging)
	var faults []fault.Field
	for i, s := range withDefaults(added, d.Key) {
		at := EntryField(withField, i)
		if own := slices.IndexFunc(d.Staging, func(own Staging) bool { return own.Name == s.Name }); own >= 0 {
			if differ := s.differingFields(d.Staging[own].defaults(d.Key), d.Key); len(differ) > 0 {
				faults = append(faults, fault.Field{Field: fault.FieldPath(at, "name"), Message: fmt.Sprintf(
					"dataset %s already has an entry %q, which differs in %s; leave this one out, or give it another name", d.Name, s.Name, strings.Join(differ, ", "))})
			}
			continue
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

// differingFields returns the names of the fields in which two entries of one name differ, whose defaults are set, in a
// dataset with a key. It does not return their values, which a client that adds an entry may not know.
func (s Staging) differingFields(other Staging, key []string) []string {
	fields := func(s Staging) (out map[string]json.RawMessage) {
		s.Filter = s.Filter.canonical()
		_ = json.Unmarshal(encode(s.form(key)), &out) // it is the text of an object
		delete(out, "name")                           // omitted where it follows from the table
		return out
	}
	a, b := fields(s), fields(other)
	var names []string
	for name, text := range a {
		if !bytes.Equal(text, b[name]) {
			names = append(names, name)
		}
	}
	for name := range b {
		if _, both := a[name]; !both {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// EntryField returns the path of an entry in a field that lists entries.
func EntryField(field string, entry int) string { return fmt.Sprintf("%s[%d]", field, entry) }

// WithFields returns an error about a dataset such that it names the entries that the query has
// itself by the query's field: with[0].key instead of staging[3].key.
func (r Rows) WithFields(err error, d Dataset) error {
	if err == nil || len(r.With) == 0 {
		return err
	}
	out := *fault.As(err)
	out.Faults = slices.Clone(out.Faults)
	for i, given := range r.With {
		at := slices.IndexFunc(d.Staging, func(s Staging) bool { return s.Name == given.Name })
		if at < 0 {
			continue // the dataset could not be made
		}
		was, is := EntryField(stagingField, at), EntryField(withField, i)
		out.Message = strings.ReplaceAll(out.Message, was, is)
		for k := range out.Faults {
			if rest, ok := strings.CutPrefix(out.Faults[k].Field, was); ok {
				out.Faults[k].Field = is + rest
			}
		}
	}
	return &out
}
