package fitted

import (
	"cmp"
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/fault"
)

// Fit fits one list. It is not safe for concurrent use.
type Fit struct {
	ask  Ask
	of   arrow.DataType
	held *budget.Reservation
	list List

	numbers  []float64      // values of floats, for quantiles
	integers []int64        // values of integers, for quantiles
	texts    *tally[string] // of a vocabulary of texts
	counts   *tally[int64]  // of a vocabulary of integers
}

// New begins a list for a column of a type. Memory is charged to b; nil: no limit. The caller releases
// the Fit.
func New(ask Ask, of arrow.DataType, b *budget.Budget) (*Fit, error) {
	f := &Fit{ask: ask, of: of, list: List{Column: ask.Column, Kind: ask.Kind, Asked: ask.Size, Type: of.String()}}
	switch id := of.ID(); {
	case ask.Kind == Quantiles && (id == arrow.INT32 || id == arrow.INT64 || id == arrow.FLOAT32 || id == arrow.FLOAT64):
	case ask.Kind == Vocabulary && id == arrow.STRING:
		f.texts = &tally[string]{at: map[string]int{}}
	case ask.Kind == Vocabulary && (id == arrow.INT32 || id == arrow.INT64):
		f.counts = &tally[int64]{at: map[int64]int{}}
	default:
		return nil, unsupported(ask, of)
	}
	var err error
	f.held, err = b.Reserve("the values of column "+ask.Column, 0)
	return f, err
}

// Release releases the memory.
func (f *Fit) Release() { f.held.Release() }

// A list of values doubles when it is full, and then exists twice for a moment. entryBytes are those
// of a value of a tally, besides the bytes of its text, with the room that maps and lists keep free.
const (
	valueBytes = 3 * 8
	entryBytes = 160
)

// tally counts distinct values. An assignment to an existing key of a map replaces a text by an
// equal one, whose memory may be that of a batch: so the map has the positions of counts instead.
type tally[T cmp.Ordered] struct {
	at     map[T]int
	values []T
	counts []int64
}

// count counts a value that the tally has, and reports whether it has it.
func (t *tally[T]) count(value T) bool {
	at, known := t.at[value]
	if known {
		t.counts[at]++
	}
	return known
}

// add adds a value with the count 1.
func (t *tally[T]) add(value T) {
	t.at[value] = len(t.values)
	t.values, t.counts = append(t.values, value), append(t.counts, 1)
}

// Add adds values of the column.
func (f *Fit) Add(values arrow.Array) error {
	f.list.Nulls += int64(values.NullN())
	if f.ask.Kind == Quantiles {
		if err := f.held.Grow(valueBytes * int64(values.Len()-values.NullN())); err != nil {
			return f.tooMany(err)
		}
	}
	switch v := values.(type) {
	case *array.Int32:
		return each(v, func(i int) error { return f.addInteger(int64(v.Value(i))) })
	case *array.Int64:
		return each(v, func(i int) error { return f.addInteger(v.Value(i)) })
	case *array.Float32:
		return each(v, func(i int) error { return f.addFloat(float64(v.Value(i))) })
	case *array.Float64:
		return each(v, func(i int) error { return f.addFloat(v.Value(i)) })
	case *array.String:
		return each(v, func(i int) error { return f.addText(v.Value(i)) })
	}
	return fault.New(fault.Internal, "values of column %s have type %s instead of %s", f.ask.Column, values.DataType(), f.of)
}

// each calls add for each row that is not null.
func each(values arrow.Array, add func(i int) error) error {
	for i := range values.Len() {
		if values.IsNull(i) {
			continue
		}
		if err := add(i); err != nil {
			return err
		}
	}
	return nil
}

func (f *Fit) addFloat(x float64) error {
	if math.IsNaN(x) {
		f.list.NaNs++
		return nil
	}
	f.numbers = append(f.numbers, x)
	return nil
}

func (f *Fit) addInteger(x int64) error {
	if f.ask.Kind == Quantiles {
		f.integers = append(f.integers, x)
		return nil
	}
	if f.counts.count(x) {
		return nil
	}
	if err := f.held.Grow(entryBytes); err != nil {
		return f.tooMany(err)
	}
	f.counts.add(x)
	return nil
}

func (f *Fit) addText(x string) error {
	if f.texts.count(x) {
		return nil
	}
	if !utf8.ValidString(x) {
		return fault.New(fault.Invalid, "column %s has a text that is not UTF-8", f.ask.Column)
	}
	if err := f.held.Grow(entryBytes + int64(len(x))); err != nil {
		return f.tooMany(err)
	}
	f.texts.add(strings.Clone(x)) // x is memory of the batch
	return nil
}

// tooMany returns the error for values that do not fit in memory.
func (f *Fit) tooMany(err error) error {
	what := "all values"
	if f.ask.Kind == Vocabulary {
		what = "the counts of all distinct values"
	}
	return fault.As(fault.Op(err, "hold %s of column %s, because lists are exact", what, f.ask.Column)).
		WithRemedy("raise the setting memory, or fit the list to fewer rows with --where")
}

// List returns the list. It is an error if there is no value for it, or if a bound is infinite.
func (f *Fit) List() (List, error) {
	out := f.list
	var err error
	switch {
	case f.texts != nil:
		f.texts.list(f.ask, &out)
	case f.counts != nil:
		f.counts.list(f.ask, &out)
	case f.of.ID() == arrow.FLOAT32 || f.of.ID() == arrow.FLOAT64:
		out.Values, err = f.bounds()
	default:
		slices.Sort(f.integers)
		out.Values = encoded(quantiles(f.integers, f.ask.Size))
	}
	if err == nil && len(out.Values) == 0 {
		err = fault.New(fault.Invalid, "column %s has no value for a list", f.ask.Column).WithRemedy("fit the list to other rows with --where, or lower --min-count")
	}
	if n := len(out.Counts); n > 0 {
		out.MinCount = out.Counts[n-1]
	}
	return out, err
}

// bounds returns the quantiles of floats. -0 counts as 0, which it equals.
func (f *Fit) bounds() ([]json.RawMessage, error) {
	for i, x := range f.numbers {
		if x == 0 {
			f.numbers[i] = 0
		}
	}
	slices.Sort(f.numbers)
	found := quantiles(f.numbers, f.ask.Size)
	if slices.ContainsFunc(found, func(x float64) bool { return math.IsInf(x, 0) }) {
		return nil, fault.New(fault.Invalid, "a quantile of column %s is infinite", f.ask.Column).WithRemedy("leave infinite values out with --where")
	}
	return encoded(found), nil
}

// quantiles returns the distinct bounds between n buckets of sorted values, by the nearest rank.
func quantiles[T cmp.Ordered](sorted []T, n int) []T {
	if n > len(sorted) { // every rank is one of those below
		return slices.Compact(slices.Clone(sorted))
	}
	var out []T
	for k := 1; k < n; k++ {
		// the smallest rank that has at least the share k/n of the values
		rank := len(sorted)/n*k + (len(sorted)%n*k+n-1)/n
		out = append(out, sorted[max(rank, 1)-1])
	}
	return slices.Compact(out)
}

// list sets the values of a vocabulary.
func (t *tally[T]) list(ask Ask, out *List) {
	var order []int
	for i, count := range t.counts {
		if count >= ask.MinCount {
			order = append(order, i)
		}
	}
	slices.SortFunc(order, func(a, b int) int {
		return cmp.Or(cmp.Compare(t.counts[b], t.counts[a]), cmp.Compare(t.values[a], t.values[b]))
	})
	var values []T
	for _, i := range order[:min(len(order), ask.Size)] {
		values, out.Counts = append(values, t.values[i]), append(out.Counts, t.counts[i])
	}
	out.Values, out.Distinct = encoded(values), int64(len(t.values))
}

// encoded returns values as JSON. Floats have the digits that identify them as doubles, and a point or
// an exponent, so that they do not look like whole numbers.
func encoded[T cmp.Ordered](values []T) []json.RawMessage {
	out := make([]json.RawMessage, len(values))
	for i, value := range values {
		switch v := any(value).(type) {
		case float64:
			text := strconv.FormatFloat(v, 'g', -1, 64)
			if v == math.Trunc(v) && math.Abs(v) < 1e15 {
				text = strconv.FormatFloat(v, 'f', 1, 64)
			}
			out[i] = json.RawMessage(text)
		case int64:
			out[i] = strconv.AppendInt(nil, v, 10)
		case string:
			out[i], _ = json.Marshal(v) // cannot fail: the text is UTF-8
		}
	}
	return out
}
