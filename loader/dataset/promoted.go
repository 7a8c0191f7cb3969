package dataset

import (
	"slices"
	"strings"

	"github.com/penstock/penstock/internal/fault"
)

// Promoted returns the named staging entries, in the dataset's order. It returns an error if their columns cannot become columns of
// the training table, whatever the entries are like: for names that the dataset does not have, for a training table that is not read at main,
// and for an overlay that stays in the dataset in front of a promoted one, whose values would win then.
func (d Dataset) Promoted(names []string) ([]Staging, error) {
	if d.Training.Ref != (Ref{}) {
		return nil, fault.InvalidField("training.ref", "dataset %s reads a branch, a tag or a snapshot of its training table, and columns are added to main", d.Name).
			WithRemedy("promote the entries of a dataset that reads main")
	}
	var chosen []Staging
	var known []string
	for _, s := range d.Staging {
		if known = append(known, s.Name); slices.Contains(names, s.Name) {
			chosen = append(chosen, s)
		}
	}
	if len(names) == 0 {
		return nil, fault.InvalidField("entries", "no entry is named").WithRemedy("name one or several of %s", strings.Join(known, ", "))
	}
	for i, name := range names {
		if !slices.Contains(known, name) {
			return nil, fault.Fields([]fault.Field{{
				Field: "entries", Message: "dataset " + d.Name + " has no staging entry " + name, Nearest: fault.Nearest(name, known),
			}})
		}
		if slices.Contains(names[:i], name) {
			return nil, fault.InvalidField("entries", "entry %s is named twice", name).WithRemedy("name each entry once")
		}
	}
	return chosen, orderedOverlays(d.Staging, names)
}

// orderedOverlays returns an error if an entry that stays in the dataset overlays before a promoted one.
func orderedOverlays(entries []Staging, promoted []string) error {
	stays := ""
	for _, s := range entries {
		switch is := slices.Contains(promoted, s.Name); {
		case !s.Join.Replaces():
		case !is:
			stays = s.Name
		case stays != "":
			return fault.InvalidField("entries", "entry %s overlays after entry %s, which would overlay its promoted values", s.Name, stays).
				WithRemedy("promote both entries, or put %s in front of %s", s.Name, stays)
		}
	}
	return nil
}
