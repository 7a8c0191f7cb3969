package dataset

import (
	"bytes"
	"slices"

	"github.com/penstock/penstock/joiner/rule"
)

type datasetForm struct {
	Training trainingForm  `json:"training"`
	Key      []string      `json:"key,omitempty"`
	Staging  []stagingForm `json:"staging,omitempty"`
	Computed []Computed    `json:"computed,omitempty"`
	Fitted   fittedForm    `json:"fitted,omitempty"`
}

type trainingForm struct {
	Table    string        `json:"table"`
	Ref      string        `json:"ref,omitempty"`
	Snapshot int64         `json:"snapshot,omitempty"`
	Filter   string        `json:"filter,omitempty"`
	Distinct *distinctForm `json:"distinct,omitempty"`

	RequestLevel []string `json:"request_level,omitempty"`
	Limits       any      `json:"limits,omitempty"`
}

type distinctForm struct {
	By      []string `json:"by"`
	Keep    Keep     `json:"keep,omitempty"`
	OrderBy []string `json:"order_by,omitempty"`
	Scope   Scope    `json:"scope,omitempty"`
}

type stagingForm struct {
	Table            string          `json:"table"`
	Name             string          `json:"name,omitempty"`
	Ref              string          `json:"ref,omitempty"`
	Snapshot         int64           `json:"snapshot,omitempty"`
	Filter           string          `json:"filter,omitempty"`
	Key              keyForm         `json:"key,omitempty"`
	Columns          []Column        `json:"columns,omitzero"` // an empty list is kept: it selects no columns
	Prefix           string          `json:"prefix,omitempty"`
	Join             rule.Kind       `json:"join,omitempty"`
	Nulls            rule.Nulls      `json:"nulls,omitempty"`
	Missing          any             `json:"missing,omitempty"`
	Duplicates       rule.Duplicates `json:"duplicates,omitempty"`
	OrderBy          []string        `json:"order_by,omitempty"`
	MinMatch         *float64        `json:"min_match,omitempty"`
	MatchedAs        string          `json:"matched_as,omitempty"`
	Align            *alignForm      `json:"align,omitempty"`
	PointInTime      *pointForm      `json:"point_in_time,omitempty"`
	Strategy         string          `json:"strategy,omitempty"`
	MaxAmplification float64         `json:"max_amplification,omitempty"`
	Limits           any             `json:"limits,omitempty"`
}

type alignForm struct {
	Training string    `json:"training"`
	Staging  string    `json:"staging,omitempty"`
	Rule     AlignRule `json:"rule,omitempty"`
	Lag      any       `json:"lag,omitempty"`
}

type pointForm struct {
	Training  string `json:"training"`
	Staging   string `json:"staging,omitempty"`
	Tolerance any    `json:"tolerance"`
	Exact     *bool  `json:"exact,omitempty"`
	Zone      Zone   `json:"zone,omitempty"`
}

// form returns the JSON form of a dataset whose defaults are set. It omits values that
// decoding restores.
func (d Dataset) form() datasetForm {
	out := datasetForm{Training: trainingForm{
		Table: d.Training.Table, Ref: d.Training.Ref.Name, Snapshot: d.Training.Ref.Snapshot, Filter: d.Training.Filter.String(),
		RequestLevel: d.Training.RequestLevel, Limits: d.Training.Limits.form(),
	}, Key: d.Key}
	if by := d.Training.Distinct; by != nil {
		out.Training.Distinct = &distinctForm{
			By: by.By, Keep: unless(by.Keep, KeepFirst), OrderBy: orderTexts(by.OrderBy), Scope: by.Scope,
		}
	}
	for _, s := range d.Staging {
		out.Staging = append(out.Staging, s.form(d.Key))
	}
	out.Computed, out.Fitted = d.Computed, d.Fitted
	return out
}

// form returns the JSON form of an entry whose defaults are set, in a dataset with the
// given key. It omits values that decoding restores.
func (s Staging) form(key []string) stagingForm {
	preset := Staging{Table: s.Table, Join: s.Join}.defaults(key)
	out := stagingForm{
		Table: s.Table, Name: unless(s.Name, preset.Name), Ref: s.Ref.Name, Snapshot: s.Ref.Snapshot, Filter: s.Filter.String(),
		Columns: s.Columns, Prefix: s.Prefix, Join: s.Join, Nulls: s.Nulls,
		Duplicates: s.Duplicates, OrderBy: orderTexts(s.OrderBy),
		MatchedAs: s.MatchedAs, Strategy: unless(s.strategy(), preset.strategy()), MaxAmplification: unless(s.MaxAmplification, preset.MaxAmplification),
		Limits: s.Limits.form(),
	}
	if s.MinMatch > 0 || s.AnyMatch {
		out.MinMatch = &s.MinMatch
	}
	if !slices.Equal(s.Key, preset.Key) {
		out.Key = s.Key
	}
	switch {
	case s.Missing.Defaults():
		out.Missing = map[string]defaultsForm{"default": s.Defaults}
	case s.Missing != preset.Missing:
		out.Missing = s.Missing
	}
	if s.Align != nil {
		out.Align = s.Align.form()
	}
	if s.PointInTime != nil {
		out.PointInTime = s.PointInTime.form()
	}
	return out
}

// strategy returns the strategy in its text form.
func (s Staging) strategy() string {
	if s.Strategy.Custom() {
		return CustomPrefix + s.Custom
	}
	return s.Strategy.String()
}

func (a Align) form() *alignForm {
	preset := Align{Training: a.Training, Lag: a.Lag}.defaults()
	out := &alignForm{Training: a.Training, Staging: unless(a.Staging, preset.Staging), Rule: unless(a.Rule, preset.Rule)}
	switch {
	case a.Lag.Count != 0:
		out.Lag = a.Lag.Count
	case a.Lag != (Lag{}):
		out.Lag = a.Lag.String()
	}
	return out
}

func (p PointInTime) form() *pointForm {
	out := &pointForm{Training: p.Training, Staging: unless(p.Staging, p.Training), Tolerance: durationText(p.Tolerance.Time), Zone: p.Zone}
	if p.Tolerance.Count != 0 {
		out.Tolerance = p.Tolerance.Count
	}
	if !p.Exact {
		out.Exact = &p.Exact
	}
	return out
}

// orderTexts returns the text form of each entry.
func orderTexts(by []OrderBy) []string {
	var out []string
	for _, o := range by {
		out = append(out, o.text())
	}
	return out
}

// samePairs returns the pairs of a key whose columns have the given names in both tables.
func samePairs(names []string) []KeyPair {
	pairs := make([]KeyPair, len(names))
	for i, name := range names {
		pairs[i] = KeyPair{Training: name, Staging: name}
	}
	return pairs
}

// defaultsForm is the JSON form of defaults: an object from columns to values.
type defaultsForm []Default

// MarshalJSON keeps the order, and distinguishes floating-point numbers from whole ones:
// 1.0 is not 1.
func (f defaultsForm) MarshalJSON() ([]byte, error) {
	o := newObject()
	for _, one := range f {
		o.put(one.Column, one.Value)
		if _, fraction := one.Value.(float64); fraction && !bytes.ContainsAny(encode(one.Value), ".e") {
			o.text.WriteString(".0")
		}
	}
	return o.bytes(), nil
}

// keyForm is the JSON form of a key: a list if the names are the same in both tables,
// otherwise an object in the order of the key.
type keyForm []KeyPair

// MarshalJSON keeps the order, which a map would lose.
func (k keyForm) MarshalJSON() ([]byte, error) {
	names := make([]string, len(k))
	o := newObject()
	for i, p := range k {
		names[i] = p.Training
		o.put(p.Training, p.Staging)
	}
	if slices.Equal(samePairs(names), k) {
		return encode(names), nil
	}
	return o.bytes(), nil
}

// MarshalJSON writes only the name for a column that is neither renamed nor shaped.
func (c Column) MarshalJSON() ([]byte, error) {
	if c == (Column{Column: c.Column}) {
		return encode(c.Column), nil
	}
	return encode(struct {
		Column string `json:"column"`
		Name   string `json:"name,omitempty"`
		First  int    `json:"first,omitempty"`
		Last   int    `json:"last,omitempty"`
		As     string `json:"as,omitempty"`
		Expr   string `json:"expr,omitempty"`
	}{c.Column, c.Name, c.First, c.Last, c.As, c.Expr}), nil
}
