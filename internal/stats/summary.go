package stats

import (
	"slices"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock/penstock/internal/batch"
)

// Quantiles are the quantiles of a Summary, ascending.
var Quantiles = []float64{0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99} //nolint:gochecknoglobals // constant

// maxTop is the maximum number of frequent values of a Summary.
const maxTop = 10

// Summary describes a column, or a series of it, as JSON. Absent fields do not apply to the type, or there
// are no values.
type Summary struct {
	// Name is the name of the column, followed by .lengths, .norms or .elements for the series of lists.
	Name string `json:"name"`
	Type string `json:"type"`
	// Rows and Nulls count the rows of the column, or the elements of all lists. They are absent for lengths and norms.
	Rows  int64 `json:"rows,omitempty"`
	Nulls int64 `json:"nulls"`
	// Values counts the values that are not null.
	Values   int64 `json:"values"`
	NaN      int64 `json:"nan,omitempty"`
	Infinite int64 `json:"infinite,omitempty"`
	// Zeros counts zeros. For norms, these are the vectors of zeros.
	Zeros *int64 `json:"zeros,omitempty"`
	// MeanBytes is the mean length of texts and binary values in bytes, and Empty counts empty ones.
	MeanBytes *Value `json:"mean_bytes,omitempty"`
	Empty     *int64 `json:"empty,omitempty"`
	Min       *Value `json:"min,omitempty"`
	Max       *Value `json:"max,omitempty"`
	// Mean and Deviation are those of finite numbers. Deviation is the standard deviation.
	Mean      *Value `json:"mean,omitempty"`
	Deviation *Value `json:"deviation,omitempty"`
	// Distinct is the number of distinct values; DistinctExact reports whether it is not an estimate.
	Distinct      *int64 `json:"distinct,omitempty"`
	DistinctExact bool   `json:"distinct_exact,omitempty"`
	// Quantiles has a value for each of the package's Quantiles, of the Sampled values. Those of floats leave out NaN.
	Quantiles []Value `json:"quantiles,omitempty"`
	// Histogram has the Sampled values. Texts and binary values have none.
	Histogram *Histogram `json:"histogram,omitempty"`
	Top       []Top      `json:"top,omitempty"`
	// Sampled counts the values in the sample. It is absent for lists, whose series have samples.
	Sampled int64 `json:"sampled,omitempty"`
}

// Top is a frequent value.
type Top struct {
	Value Value   `json:"value"`
	Count int64   `json:"count"` // in the sample
	Share float64 `json:"share"` // of the values in the sample
}

// SummaryMemory returns the maximum number of bytes that Summarize takes for a column, until it returns.
func (p *Part) SummaryMemory(column int) int64 { return valuesMemory(p.sample, column) }

// Summarize returns the summaries of the column with an index: one for each of its series. Unless it shows values, it leaves
// out frequent values, histograms whose bins have one integer each, and minimum and maximum of texts and binary values.
// Given summaries of another Part, histograms have the bins of those with the same names, so that both can be compared.
// Several columns of a Part can be summarized at the same time.
func (p *Part) Summarize(column int, name string, values bool, other []Summary) []Summary {
	like := map[string]*Histogram{}
	for _, s := range other {
		like[s.Name] = s.Histogram
	}
	c := p.Columns[column]
	arrays := make([]arrow.Array, len(p.sample))
	for i, b := range p.sample {
		arrays[i] = b.Column(column)
	}
	return c.summarize(name, arrays, values, like)
}

// summarize returns the summaries of a column, given the arrays of its sample, which it borrows, and the histograms whose bins
// it takes, by the names of summaries.
func (c *Column) summarize(name string, sample []arrow.Array, values bool, like map[string]*Histogram) []Summary {
	t := batch.StorageOf(c.Type)
	one := Summary{Name: name, Type: c.Type.String(), Rows: c.Rows, Nulls: c.Nulls, Values: c.Rows - c.Nulls}
	switch s := c.Values.(type) {
	case *Integers:
		s.describe(&one, t, valuesOf(sample, integerAt), values, like[name])
	case *Floats:
		s.describe(&one, valuesOf(sample, floatAt), values, like[name])
	case *Bytes:
		s.describe(&one, t, valuesOf(sample, textAt), values)
	}
	out := []Summary{one}
	if c.Lengths == nil {
		return out
	}
	lengths, norms, elements := flatten(sample, c.Norms != nil)
	defer batch.ReleaseAll(elements...)
	of := Summary{Name: name + ".lengths", Type: arrow.PrimitiveTypes.Int64.String(), Values: c.Lengths.N}
	c.Lengths.describe(&of, arrow.PrimitiveTypes.Int64, lengths, values, like[of.Name])
	out = append(out, of)
	if c.Norms != nil {
		of := Summary{Name: name + ".norms", Type: arrow.PrimitiveTypes.Float64.String(), Values: c.Norms.N}
		c.Norms.describe(&of, norms, false, like[of.Name])
		out = append(out, of)
	}
	return append(out, c.Elements.summarize(name+".elements", elements, values, like)...)
}

// describe sets the fields of a Summary, given the values of the sample, which it sorts.
func (s *Integers) describe(out *Summary, t arrow.DataType, sample []int64, values bool, like *Histogram) {
	value := func(v int64) Value { return integerValue(t, v) }
	out.Sampled = int64(len(sample))
	out.Distinct, out.DistinctExact = distinct(&s.Distinct, 0, s.N)
	if s.N == 0 {
		return
	}
	out.Min, out.Max = new(value(s.Min)), new(value(s.Max))
	if t.ID() == arrow.INT32 || t.ID() == arrow.INT64 || t.ID() == arrow.BOOL {
		out.Zeros = &s.Zeros
		out.Mean, out.Deviation = finite(s.moments.mean()), finite(s.moments.deviation())
	}
	sortIntegers(sample)
	out.Quantiles, out.Histogram = quantiles(sample, value), integerHistogram(sample, value, values, like)
	if values {
		out.Top = topOf(sample, s.N, value)
	}
}

// describe sets the fields of a Summary, given the values of the sample, which it sorts. NaN is not among quantiles.
func (s *Floats) describe(out *Summary, sample []float64, values bool, like *Histogram) {
	out.NaN, out.Infinite, out.Sampled = s.NaN, s.Infinite, int64(len(sample))
	out.Distinct, out.DistinctExact = distinct(&s.Distinct, 0, s.N)
	if s.moments.n == 0 {
		return
	}
	out.Zeros, out.Min, out.Max = &s.Zeros, new(floatValue(s.Min)), new(floatValue(s.Max))
	out.Mean, out.Deviation = finite(s.moments.mean()), finite(s.moments.deviation())
	sortFloats(sample)
	out.Quantiles, out.Histogram = quantiles(sample, floatValue), floatHistogram(sample, like)
	if values {
		out.Top = topOf(sample, s.N, floatValue)
	}
}

// describe sets the fields of a Summary, given the values of the sample, which it sorts.
func (s *Bytes) describe(out *Summary, t arrow.DataType, sample []string, values bool) {
	value := func(v string) Value { return bytesValue(t, []byte(v)) }
	out.Sampled = int64(len(sample))
	out.Distinct, out.DistinctExact = distinct(&s.Distinct, min(s.Empty, 1), s.N)
	if s.N == 0 {
		return
	}
	out.Empty, out.MeanBytes = &s.Empty, new(floatValue(float64(s.TotalBytes)/float64(s.N)))
	if values {
		out.Min, out.Max = new(bytesValue(t, s.Min)), new(bytesValue(t, s.Max))
		slices.Sort(sample)
		out.Top = topOf(sample, s.N, value)
	}
}
