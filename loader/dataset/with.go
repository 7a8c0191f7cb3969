package dataset

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/penstock/penstock/internal/fault"
)

// MaxStaging is the maximum number of staging entries in a dataset, including the entries that a
// query adds.
const MaxStaging = 64

// The names of the fields that list staging entries, in queries and in datasets.
const (
	withField    = "with"
	stagingField = "staging"
)

// DatasetOf returns the dataset that a query names or contains, followed by the entries that the
// query adds to it. added is the number of added entries: an entry that the configured dataset has
// already is not added again. The error is NotFound if no configured dataset has the name, and
// Invalid if entries cannot be added to the dataset.
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

// GivesEntry reports whether With has an entry of the given name, even if the dataset has the same
// entry.
func (r Rows) GivesEntry(name string) bool {
	return slices.ContainsFunc(r.With, func(s Staging) bool { return s.Name == name })
}

// ClientTables returns the names of the tables that the query itself defines: the tables of an
// inline dataset and of the entries in With. A client that has no right to send inline datasets may
// not send a query that has any such tables.
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

// with returns the dataset extended by those of the given entries that it does not have.
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

// differingFields returns the names of the fields in which two entries of the same name differ. The
// defaults of both entries must be set; key is the key of the dataset. It does not return the
// values of the fields, because a client that adds an entry may not be allowed to see them.
func (s Staging) differingFields(other Staging, key []string) []string {
	fields := func(s Staging) (out map[string]json.RawMessage) {
		s.Filter = s.Filter.canonical()
		_ = json.Unmarshal(encode(s.form(key)), &out) // cannot fail: the text is an object
		delete(out, "name")                           // the names are equal, but only one text may have the name
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

// WithFields returns an error about a dataset in which paths to entries that the query added start
// with the query's field: with[0].key instead of staging[3].key.
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
