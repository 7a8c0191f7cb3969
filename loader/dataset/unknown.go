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
		return e.WithRemedy("the server has no datasets: add them under datasets in its config file")
	case len(known) > listedDatasets:
		return e.WithRemedy("ListFlights lists the server's datasets, which include %s", strings.Join(known[:listedDatasets], ", "))
	}
	return e.WithRemedy("use one of: %s", strings.Join(known, ", "))
}
