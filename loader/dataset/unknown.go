package dataset

import (
	"slices"
	"strings"

	"github.com/penstock/penstock/internal/fault"
)

// listedDatasets bounds how many names an error lists.
const listedDatasets = 10

// Unknown is the NotFound of a dataset that there is not, with the nearest of the known
// names, or else the names themselves.
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

// QueryFields are the names of the fields of a query that this version serves.
func QueryFields() []string {
	_, served := meant("", queryFields())
	return served
}

// MeantField is the field of a query that another program's word for it means; "" if there
// is none.
func MeantField(name string) string {
	for _, f := range queryFields() {
		if slices.Contains(f.also, strings.ToLower(name)) {
			return f.name
		}
	}
	return ""
}

// MeantSetting is the server's setting that another program's word for it means; "" if
// there is none.
func MeantSetting(name string) string {
	for setting, words := range settingsMeant() {
		if slices.Contains(words, strings.ToLower(name)) {
			return setting
		}
	}
	return ""
}
