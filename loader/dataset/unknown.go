package dataset

import (
	"slices"
	"strings"

	"github.com/penstock/penstock/internal/fault"
)

// listedDatasets is the maximum number of names that an error lists.
const listedDatasets = 10

// Unknown returns the NotFound error for an unknown dataset. It suggests the nearest of
// the known names, or else lists the names.
func Unknown(name string, known []string) *fault.Error {
	known = slices.Sorted(slices.Values(known))
	e := fault.New(fault.NotFound, "there is no dataset %q", name)
	e.Faults = []fault.Field{{Field: "dataset", Message: e.Message, Nearest: fault.Nearest(name, known)}}
	switch near := e.Faults[0].Nearest; {
	case near != "":
		return e.WithRemedy("did you mean %q?", near)
	case len(known) == 0:
		return e.WithRemedy("there are none: name some under datasets in the server's config file")
	case len(known) > listedDatasets:
		return e.WithRemedy("ListFlights names the datasets that this server has, among them %s", strings.Join(known[:listedDatasets], ", "))
	}
	return e.WithRemedy("name one of: %s", strings.Join(known, ", "))
}

// QueryFields returns the names of the query fields that take effect in this version.
func QueryFields() []string {
	_, served := meant("", queryFields())
	return served
}

// MeantField returns the query field for which another program uses the given name, or
// "".
func MeantField(name string) string {
	for _, f := range queryFields() {
		if slices.Contains(f.also, strings.ToLower(name)) {
			return f.name
		}
	}
	return ""
}

// MeantSetting returns the server setting for which another program uses the given name,
// or "".
func MeantSetting(name string) string {
	for setting, words := range settingsMeant() {
		if slices.Contains(words, strings.ToLower(name)) {
			return setting
		}
	}
	return ""
}
