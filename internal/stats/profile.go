package stats

import (
	"cmp"
	"math"
	"slices"
	"sort"
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock/penstock/internal/batch"
)

// Scale says how the values of a series can be compared.
type Scale int

// The scales.
const (
	Numbers    Scale = iota // numbers, including lengths and norms
	Categories              // texts, binary values and booleans, which are only equal or not
	Times                   // dates and times, which grow from day to day
	Unscaled                // lists, and types that are not described: only their nulls are counted
)

// Profile has what comparisons need of a series of values: counts of all its values, and the values of the sample.
type Profile struct {
	Name string // as in Summary
	Type string
	Scale
	// Rows and Nulls count the rows of the column, or the elements of all lists. They are 0 for lengths and norms.
	Rows, Nulls int64
	Values      int64 // values that are not null
	NotFinite   int64 // part of Values: NaN and infinite numbers
	Zeros       int64 // part of Values: zeros of numbers, and empty texts
	HasZeros    bool  // whether Zeros is counted
	// Min and Max are the least and the greatest finite number of all rows, for numbers; 0 without one.
	Min, Max float64
	// Independent is the share of the values that count as independent of one another: 1, or less for the elements of lists.
	Independent float64
	// Effect is the design effect of the rows: the number of rows for each row that counts as independent. It is at least 1; 0 counts
	// as 1. Clusters estimates it.
	Effect float64
	// Sample has the finite numbers of the sample in ascending order; nil for other scales.
	Sample []float64
	// The values of the sample in ascending order: one of the three, by their type. They are finite.
	integers []int64
	floats   []float64
	texts    []string
	show     func(Key) Value
	perDay   int64 // units of a day, if the integers are timestamps; otherwise 0
}

// Key is a value of a series.
type Key struct {
	integer int64
	float   float64
	text    string
}

// Frequent is a value that occurs often in the sample.
type Frequent struct {
	Key   Key
	Value Value
	Count int64
}

// Profiles returns the profiles of the column with an index: one for each of its series. They share the memory of the texts of the
// sample.
func (o *Outline) Profiles(column int, name string) []*Profile {
	arrays := make([]arrow.Array, len(o.sample))
	for i, b := range o.sample {
		arrays[i] = b.Column(column)
	}
	return o.columns[column].profiles(name, 1, arrays)
}

// ProfileMemory returns the maximum number of bytes that the profiles of a column take, with the forms of its texts.
func (o *Outline) ProfileMemory(column int) int64 {
	return valuesMemory(o.sample, column) + maxForms*formMemory
}

func (c *Column) profiles(name string, independent float64, sample []arrow.Array) []*Profile {
	one := &Profile{
		Name: name, Type: c.Type.String(), Scale: Unscaled, Rows: c.Rows, Nulls: c.Nulls, Values: c.Rows - c.Nulls, Independent: independent,
	}
	switch s := c.Values.(type) {
	case *Integers:
		one.ofIntegers(s, batch.StorageOf(c.Type), valuesOf(sample, integerAt))
	case *Floats:
		one.ofFloats(s, valuesOf(sample, floatAt))
	case *Bytes:
		one.ofBytes(s, batch.StorageOf(c.Type), valuesOf(sample, textAt))
	}
	out := []*Profile{one}
	if c.Lengths == nil {
		return out
	}
	lengths, norms, elements := flatten(sample, c.Norms != nil)
	defer batch.ReleaseAll(elements...)
	of := &Profile{Name: name + ".lengths", Type: arrow.PrimitiveTypes.Int64.String(), Values: c.Lengths.N, Independent: independent}
	of.ofIntegers(c.Lengths, arrow.PrimitiveTypes.Int64, lengths)
	out = append(out, of)
	if c.Norms != nil {
		of := &Profile{Name: name + ".norms", Type: arrow.PrimitiveTypes.Float64.String(), Values: c.Norms.N, Independent: independent}
		of.ofFloats(c.Norms, norms)
		out = append(out, of)
	}
	return append(out, c.Elements.profiles(name+".elements", independent*c.independentElements(), elements)...)
}

// independentElements returns the share of the elements that count as independent, since the elements of a list may all be alike.
// It is the effective size of a sample of clusters with different sizes. Source: Kish: Survey Sampling, 1965, section 11.7.
func (c *Column) independentElements() float64 {
	lists, elements := float64(c.Lengths.N), float64(c.Elements.Rows)
	if elements == 0 {
		return 1
	}
	mean, deviation := c.Lengths.moments.mean(), c.Lengths.moments.deviation()
	return min(1, lists*mean*mean/(mean*mean+deviation*deviation)/elements)
}

func (p *Profile) ofIntegers(s *Integers, t arrow.DataType, sample []int64) {
	sortIntegers(sample)
	p.integers, p.show = sample, func(k Key) Value { return integerValue(t, k.integer) }
	switch t.ID() {
	case arrow.INT32, arrow.INT64:
		p.Scale, p.Zeros, p.HasZeros, p.Sample = Numbers, s.Zeros, true, make([]float64, len(sample))
		p.Min, p.Max = float64(s.Min), float64(s.Max)
		for i, v := range sample {
			p.Sample[i] = float64(v)
		}
	case arrow.BOOL:
		p.Scale = Categories
	default:
		p.Scale = Times
		if timestamp, ok := t.(*arrow.TimestampType); ok {
			p.perDay = int64(24 * time.Hour / timestamp.Unit.Multiplier()) //nolint:mnd // a day
		}
	}
}

// TimesOfDay counts the timestamps of the sample by their time of the day, in UTC, in bins of equal length. The counts of other
// types, also of dates, are 0.
func (p *Profile) TimesOfDay(bins int) []float64 {
	out := make([]float64, bins)
	if p.perDay == 0 {
		return out
	}
	length := p.perDay / int64(bins)
	for _, v := range p.integers {
		of := v % p.perDay
		if of < 0 {
			of += p.perDay
		}
		out[min(of/length, int64(bins-1))]++
	}
	return out
}

func (p *Profile) ofFloats(s *Floats, sample []float64) {
	sortFloats(sample)
	p.Scale, p.Zeros, p.HasZeros, p.NotFinite = Numbers, s.Zeros, true, s.NaN+s.Infinite
	p.Min, p.Max = s.Min, s.Max
	p.Sample = withoutInfinities(sample)
	p.floats, p.show = p.Sample, func(k Key) Value { return floatValue(k.float) }
}

func (p *Profile) ofBytes(s *Bytes, t arrow.DataType, sample []string) {
	slices.Sort(sample)
	p.Scale, p.Zeros, p.HasZeros = Categories, s.Empty, true
	p.texts, p.show = sample, func(k Key) Value { return bytesValue(t, []byte(k.text)) }
}

// IndependentRows returns the share of all values that count as independent of one another.
func (p *Profile) IndependentRows() float64 { return p.Independent / max(p.Effect, 1) }

// IndependentSample returns the share of the values of the sample that count as independent of one another. A sample has only some of
// the rows of each cluster, so that the share is larger than that of all values.
func (p *Profile) IndependentSample() float64 {
	sampled := 1.0
	if p.Values > 0 {
		sampled = min(1, float64(p.Sampled())/float64(p.Values))
	}
	return p.Independent / (1 + (max(p.Effect, 1)-1)*sampled)
}

// Sampled returns the number of values in the sample, without NaN and infinite numbers.
func (p *Profile) Sampled() int64 { return int64(len(p.integers) + len(p.floats) + len(p.texts)) }

// Frequent returns the most frequent values of the sample, the most frequent first, of those that are at least a share of it.
func (p *Profile) Frequent(share float64) (out []Frequent) {
	least := max(minTop, int(math.Ceil(share*float64(p.Sampled()))))
	runs(p.integers, least, func(v int64, n int) { out = append(out, Frequent{Key: Key{integer: v}, Count: int64(n)}) })
	runs(p.floats, least, func(v float64, n int) { out = append(out, Frequent{Key: Key{float: v}, Count: int64(n)}) })
	runs(p.texts, least, func(v string, n int) { out = append(out, Frequent{Key: Key{text: v}, Count: int64(n)}) })
	slices.SortStableFunc(out, func(a, b Frequent) int { return cmp.Compare(b.Count, a.Count) })
	out = out[:min(len(out), maxTop)]
	for i := range out {
		out[i].Value = p.show(out[i].Key)
	}
	return out
}

// runs calls found for each of sorted values that occurs at least a number of times.
func runs[T cmp.Ordered](sorted []T, least int, found func(v T, n int)) {
	for from := 0; from < len(sorted); {
		to := from + 1
		for to < len(sorted) && sorted[to] == sorted[from] {
			to++
		}
		if to-from >= least {
			found(sorted[from], to-from)
		}
		from = to
	}
}

// Count returns how often a value of a series of the same type occurs in the sample.
func (p *Profile) Count(of Key) int64 {
	return occurrences(p.integers, of.integer) + occurrences(p.floats, of.float) + occurrences(p.texts, of.text)
}

func occurrences[T cmp.Ordered](sorted []T, v T) int64 {
	from, found := slices.BinarySearch(sorted, v)
	if !found {
		return 0
	}
	return int64(sort.Search(len(sorted)-from, func(i int) bool { return sorted[from+i] > v }))
}

// IsZero reports whether the value is counted by Zeros.
func (p *Profile) IsZero(k Key) bool { return p.HasZeros && k == Key{} }
