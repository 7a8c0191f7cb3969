package dataset

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/joiner/rule"
)

// ColumnOrigin is where the values of a promoted column come from. The documentation of the column ends with it in JSON form.
type ColumnOrigin struct {
	Promotion string `json:"promotion"`
	Entry     string `json:"entry"`
	Table     string `json:"table"`
	TablePin         // the state of the staging table that was joined
	// Definition is the PromotionDigest of the entry. Columns is the number of columns that the
	// promotion made from the entry.
	Definition string `json:"definition"`
	Columns    int    `json:"columns"`
	// Replaces is the field id of the column that this column replaces. Name is the name of both
	// columns.
	Replaces int    `json:"replaces,omitempty"`
	Name     string `json:"name"`
	// Nullable reports whether the join may return null for the column.
	Nullable bool `json:"nullable,omitempty"`
	// Attempt distinguishes promotions that were restarted with the same snapshots.
	Attempt int `json:"attempt,omitempty"`
}

// originMark begins the JSON form in the documentation of a column.
const originMark = "penstock.promotion="

// Doc returns the documentation of a column that has the values of a column of the staging table.
func (o ColumnOrigin) Doc(source string) string {
	return "column " + source + " of " + o.Table + " at snapshot " + strconv.FormatInt(o.Snapshot, 10) + "; " + originMark + string(encode(o))
}

// OriginOf returns the origin in the documentation of a column. It returns false if no promotion made the column.
func OriginOf(doc string) (ColumnOrigin, bool) {
	_, form, ok := strings.Cut(doc, originMark)
	var out ColumnOrigin
	if !ok || json.Unmarshal([]byte(form), &out) != nil {
		return ColumnOrigin{}, false
	}
	return out, out.Promotion != "" && out.Name != ""
}

// PromotionDigest identifies the values that an entry gives to each training row at a given
// snapshot of the entry's table. key is the key of the dataset. The digest covers all fields of the
// entry except the fields that only check or speed up the join.
func (s Staging) PromotionDigest(key []string) string {
	s = s.defaults(key)
	s.MinMatch, s.AnyMatch, s.MaxAmplification, s.Limits = 0, false, 0, nil
	if s.Missing.Fail() {
		s.Missing = rule.MissingNull
	}
	if !s.Strategy.Custom() {
		s.Strategy = Staging{}.Strategy
	}
	return Dataset{Training: Training{Table: "-"}, Staging: []Staging{s}}.Digest()
}

// Promoted returns the named staging entries, in the dataset's order. already has the names of the
// entries whose columns the training table has already. Promoted returns an error if names is
// empty, has a name twice or has one that is not in the dataset, if the training table is not read
// at main, or if promoting the entries would change which overlay wins (see orderedOverlays). It
// does not check the definitions of the entries.
func (d Dataset) Promoted(names, already []string) ([]Staging, error) {
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
		if slices.ContainsFunc(d.Computed, func(c Computed) bool { return c.Column == name }) && !slices.Contains(known, name) {
			return nil, fault.InvalidField("entries", "%s is a computed column of dataset %s, and only staging entries are promoted", name, d.Name).
				WithRemedy("keep the computed column in the dataset, or stage its values and promote that entry")
		}
		if !slices.Contains(known, name) {
			return nil, fault.Fields([]fault.Field{{
				Field: "entries", Message: "dataset " + d.Name + " has no staging entry " + name, Nearest: fault.Nearest(name, known),
			}})
		}
		if slices.Contains(names[:i], name) {
			return nil, fault.InvalidField("entries", "entry %s is named twice", name).WithRemedy("name each entry once")
		}
	}
	return chosen, orderedOverlays(d.Staging, names, already)
}

// orderedOverlays returns an error if promotion would change which overlay wins: if an overlay to
// promote follows an overlay that stays in the dataset, or precedes an overlay that was promoted
// already.
func orderedOverlays(entries []Staging, promoted, already []string) error {
	stays, last := "", ""
	for _, s := range entries {
		switch is := slices.Contains(promoted, s.Name); {
		case !s.Join.Replaces():
		case slices.Contains(already, s.Name):
			if last != "" {
				return fault.InvalidField("entries", "entry %s overlays before entry %s, which was promoted already", last, s.Name).
					WithRemedy("demote the columns of %s, and promote %s first", s.Name, last)
			}
		case !is:
			stays = s.Name
		case stays != "":
			return fault.InvalidField("entries", "entry %s overlays after entry %s, which would overlay its promoted values", s.Name, stays).
				WithRemedy("promote %s first, or put %s in front of it", stays, s.Name)
		default:
			last = s.Name
		}
	}
	return nil
}
