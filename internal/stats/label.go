package stats

import (
	"cmp"
	"math"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/fault"
)

// LabelMeasure is a way to say how well the values of a column tell those of a label.
type LabelMeasure string

// The measures of a label.
const (
	AUC         LabelMeasure = "auc"         // for labels 0 and 1: the area under the ROC curve
	Correlation LabelMeasure = "correlation" // for other numbers: Pearson's correlation
)

// LeakLimit is the limit of a LabelMeasure. A column beyond it probably has the label itself.
const LeakLimit = 0.99

// Too few rows tell nothing: a few values may be in the order of the label by chance.
const (
	minLabelRows  = 50
	minLabelClass = 10 // rows of each label 0 and 1
)

// Relation says how well the values of a column tell those of a label, in the rows of the sample that have both, as JSON.
type Relation struct {
	Column string  `json:"column"`
	Value  float64 `json:"value"`
	Rows   int64   `json:"rows"`
	Leak   bool    `json:"leak,omitempty"` // whether the value is beyond the limit
	// Base is the value of a base of a comparison; nil without one. RiseLimit is the limit of the rise of the strength from the base,
	// and Risen whether the rise is beyond it.
	Base      *float64 `json:"base,omitempty"`
	RiseLimit float64  `json:"rise_limit,omitempty"`
	Risen     bool     `json:"risen,omitempty"`
	// Rarer is the number of rows of the rarer one of two labels.
	Rarer int64 `json:"-"`
}

// Label describes how well columns predict a label, as JSON.
type Label struct {
	Column  string       `json:"column"`
	Measure LabelMeasure `json:"measure"`
	Limit   float64      `json:"limit"`
	// Columns are columns of numbers and booleans that have enough rows, those that predict the label best first.
	Columns []Relation `json:"columns"`
}

// Alarms returns the columns that probably have the label, or predict it much better than in the base.
func (l *Label) Alarms() []Relation {
	if l == nil {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(l.Columns), func(r Relation) bool { return !r.Leak && !r.Risen })
}

// IsLabel reports whether a type has labels: numbers and booleans.
func IsLabel(t arrow.DataType) bool {
	switch batch.StorageOf(t).ID() {
	case arrow.BOOL, arrow.INT32, arrow.INT64, arrow.FLOAT32, arrow.FLOAT64, arrow.DECIMAL128:
		return true
	default:
		return false
	}
}

// FindLabel returns the index of a label among columns. The error is NotFound if there is no such column, and Invalid if it has
// no labels.
func FindLabel(name string, columns []arrow.Field) (int, error) {
	names := make([]string, len(columns))
	for i, c := range columns {
		if names[i] = c.Name; c.Name != name {
			continue
		}
		if !IsLabel(c.Type) {
			return 0, fault.New(fault.Invalid, "column %q of type %s is no label", name, c.Type).WithRemedy("name a column of numbers or booleans")
		}
		return i, nil
	}
	failure := fault.New(fault.NotFound, "there is no column %q for the label", name)
	failure.Faults = []fault.Field{{Field: "label", Message: failure.Message, Nearest: fault.Nearest(name, names)}}
	return 0, failure
}

// LabelMemory returns the number of bytes that Label takes.
func (p *Part) LabelMemory() int64 {
	const pair, copies = 16, 2
	return pair * copies * p.Sampled
}

// Label compares the columns, whose names are in fields, with the column with an index, which is one of labels.
func (p *Part) Label(label int, fields []arrow.Field) *Label {
	out := &Label{Column: fields[label].Name, Measure: AUC, Limit: LeakLimit, Columns: []Relation{}}
	for _, pair := range p.pairs(label, label) {
		if pair.label != 0 && pair.label != 1 {
			out.Measure = Correlation
		}
	}
	for i, f := range fields {
		if i == label || !IsLabel(p.Columns[i].Type) {
			continue
		}
		pairs := p.pairs(i, label)
		value, rarer := math.NaN(), int64(0)
		if out.Measure == AUC {
			value, rarer = areaUnderCurve(pairs)
		} else if len(pairs) >= minLabelRows {
			value = correlation(pairs)
		}
		if !math.IsNaN(value) {
			out.Columns = append(out.Columns, Relation{Column: f.Name, Value: value, Rows: int64(len(pairs)), Leak: out.Strength(value) > LeakLimit, Rarer: rarer})
		}
	}
	slices.SortStableFunc(out.Columns, func(a, b Relation) int { return cmp.Compare(out.Strength(b.Value), out.Strength(a.Value)) })
	return out
}

// Strength returns how well a value predicts the label, whatever the direction.
func (l *Label) Strength(value float64) float64 {
	if l.Measure == AUC {
		return max(value, 1-value)
	}
	return math.Abs(value)
}

// pair is a value of a column and the label of its row.
type pair struct{ value, label float64 }

// pairs returns the rows of the sample whose values and labels are finite.
func (p *Part) pairs(column, label int) (out []pair) {
	for _, b := range p.sample {
		values, labels := b.Column(column), b.Column(label)
		for i := range int(b.NumRows()) {
			x, y := numberAt(values, i), numberAt(labels, i)
			if x-x == 0 && y-y == 0 { // neither infinite nor NaN
				out = append(out, pair{x, y})
			}
		}
	}
	return out
}

// numberAt returns a value as a number: NaN for null, 0 and 1 for booleans.
func numberAt(values arrow.Array, i int) float64 {
	values = storageOf(values)
	if values.IsNull(i) {
		return math.NaN()
	}
	if v, ok := integerAt(values, i); ok {
		return float64(v)
	}
	if v, ok := floatAt(values, i); ok {
		return v
	}
	return math.NaN()
}

// areaUnderCurve returns the probability that a value of label 1 is greater than one of label 0, where equal values count half, and
// the number of rows of the rarer label. The area is NaN if one of the labels has too few rows. It sorts the pairs. Source: Mann and Whitney, 1947, with mid-ranks for ties.
func areaUnderCurve(pairs []pair) (area float64, rarer int64) {
	slices.SortFunc(pairs, func(a, b pair) int { return cmp.Compare(a.value, b.value) })
	ranks, ones := 0.0, 0.0
	for from := 0; from < len(pairs); {
		to, here := from, 0.0
		for to < len(pairs) && pairs[to].value == pairs[from].value {
			here += pairs[to].label
			to++
		}
		ranks += here * float64(from+to+1) / 2 //nolint:mnd // the middle of ranks from+1 to to
		ones, from = ones+here, to
	}
	zeros := float64(len(pairs)) - ones
	if min(ones, zeros) < minLabelClass || len(pairs) < minLabelRows {
		return math.NaN(), 0
	}
	return (ranks - ones*(ones+1)/2) / (ones * zeros), int64(min(ones, zeros)) //nolint:mnd // the sum of the lowest ranks
}

// correlation returns Pearson's correlation of values and labels; NaN if one of them is constant.
func correlation(pairs []pair) float64 {
	var values, labels moments
	for _, p := range pairs {
		values.add(p.value)
		labels.add(p.label)
	}
	sum := 0.0
	for _, p := range pairs {
		sum += (p.value - values.mean()) * (p.label - labels.mean())
	}
	return sum / math.Sqrt(values.squares()) / math.Sqrt(labels.squares())
}
