package warehouse

import (
	"fmt"
	"slices"
	"strings"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/scenario"
)

// Refusal is a column that this version does not read of some file.
type Refusal struct {
	Table, Column string
	Why           string
	planned       bool // the metadata tells: it is refused when the query is planned, or never
}

// Prediction is what must, and what may be refused. A file that lacks a
// column is found out when it is opened, which pruning may spare.
type Prediction struct {
	Must, May []Refusal
	// Pinned lets the query say which snapshots it reads.
	Pinned bool
}

// judge returns the reason of an error that was predicted, or "".
func (p Prediction) judge(err error) string {
	if err == nil || fault.KindOf(err) != fault.Invalid {
		return ""
	}
	for _, r := range slices.Concat(p.Must, p.May) {
		if r.planned && !strings.HasPrefix(err.Error(), "plan ") {
			continue
		}
		if strings.Contains(err.Error(), r.Table) && names(err.Error(), r.Column) {
			return r.Why
		}
	}
	return ""
}

// names says whether a text has a name as a word of its own.
func names(text, name string) bool {
	return slices.Contains(strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune(" \",:;()", r) }), name)
}

// Predict says what is refused of a case.
func (w *Written) Predict() Prediction {
	var p Prediction
	always := w.ReadsAlways()
	for table, names := range w.Reads() {
		c := w.columns[table]
		for _, x := range c.Changes {
			if !slices.Contains(names, x.Column) {
				continue
			}
			r := Refusal{Table: table, Column: x.Column, Why: string(x.Kind), planned: c.refusedByCatalog(x)}
			switch {
			case r.planned && slices.Contains(always[table], x.Column):
				p.Must = append(p.Must, r)
			case r.planned:
				r.Why += ", filter"
				p.May = append(p.May, r)
			case c.refusedByScan(x):
				r.Why += ", late"
				p.May = append(p.May, r)
			}
		}
	}
	return p
}

// refusedByCatalog says whether a file is known to have been written under a
// schema in which the column was another one.
func (c *columns) refusedByCatalog(x Change) bool {
	for commit := range c.Lost {
		for _, at := range c.known(commit) {
			if at < x.At && x.refused() {
				return true
			}
		}
	}
	return false
}

// refused says whether files are refused in which a column is what it was
// before a change.
func (c Change) refused() bool {
	switch c.Kind {
	case Added, Replaced:
		return c.Default != ""
	case Renamed, Promoted, Tightened, Inside, Relaxed, Gone: // found by field id
	}
	return false
}

// known are the commits whose schemas the files of a commit may have been
// written under, as far as metadata tells.
func (c *columns) known(commit int) []int {
	all := make([]int, len(c.schemas))
	for i := range all {
		all[i] = i - 1
	}
	switch {
	case !c.Lost[commit] && (!c.Unnamed || c.format(commit) > 1):
		return []int{commit}
	case c.Merged > commit: // the manifest that told is gone
		return all
	case c.Stale && slices.ContainsFunc(c.Changes, func(x Change) bool { return x.Late && x.At == commit }):
		return []int{commit - 1}
	default:
		return []int{commit}
	}
}

// refusedByScan says whether a file shows, once it is open, that a late writer
// did not know of a change.
func (c *columns) refusedByScan(x Change) bool {
	return x.Late && (x.Kind == Added || x.Kind == Replaced) && x.Default != ""
}

// judgeOrder returns the reason of an error that says that nobody knows which
// rows were written first, where that can matter. Where it does matter, there
// must be that error.
func judgeOrder(c *scenario.Case, w *scenario.World, p Prediction, want scenario.Expectation, err error) (string, scenario.Difference) {
	kind, can, said := fault.Invalid, false, false
	if p.Pinned {
		kind = fault.Expired
	}
	for _, table := range c.Chosen() {
		unknown := w.Unordered(table)
		can = can || unknown
		said = said || unknown && err != nil && fault.KindOf(err) == kind && strings.Contains(err.Error(), "nobody knows") && strings.Contains(err.Error(), table)
	}
	if !can || err != nil && !said {
		return "", scenario.Difference{}
	}
	matters := !sameRows(want, c.Expect(w.Turned()))
	switch {
	case said && matters:
		return "order, which shows", scenario.Difference{}
	case said:
		return "order", scenario.Difference{}
	case matters:
		return "", scenario.Difference{Kind: "an order was guessed", Text: fmt.Sprintf("%v", want.Rows)}
	default:
		return "", scenario.Difference{}
	}
}

// sameRows says whether an oracle expects the same of two worlds.
func sameRows(a, b scenario.Expectation) bool {
	x, y := scenario.Texts(a.Rows), scenario.Texts(b.Rows)
	slices.Sort(x)
	slices.Sort(y)
	return a.Fails == b.Fails && slices.Equal(x, y)
}

// String shows a refusal.
func (r Refusal) String() string { return fmt.Sprintf("%s of %s: %s", r.Column, r.Table, r.Why) }
