package expr

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/fault"
)

func listOf[T int64 | float64 | string](t testing.TB, values ...T) *List {
	t.Helper()
	var items arrow.Array
	switch v := any(values).(type) {
	case []int64:
		b := array.NewInt64Builder(memory.DefaultAllocator)
		b.AppendValues(v, nil)
		items = b.NewArray()
	case []float64:
		b := array.NewFloat64Builder(memory.DefaultAllocator)
		b.AppendValues(v, nil)
		items = b.NewArray()
	case []string:
		b := array.NewStringBuilder(memory.DefaultAllocator)
		b.AppendValues(v, nil)
		items = b.NewArray()
	}
	l, err := NewList(items)
	require.NoError(t, err)
	return l
}

// valuesWith parses, binds and evaluates an expression with lists.
func valuesWith(t testing.TB, text string, lists Lists, rows arrow.RecordBatch) arrow.Array {
	t.Helper()
	v, err := ParseValue(text)
	require.NoError(t, err)
	v, err = v.WithLists(lists)
	require.NoError(t, err)
	c, err := v.Bind(rows.Schema())
	require.NoError(t, err)
	out, err := c.Evaluate(rows, memory.DefaultAllocator)
	require.NoError(t, err)
	return out
}

// A fitted list has the same values in functions as a literal list, by its name and by its digest.
//
// spec: fitted-1, fitted-2
func TestFittedListsAreLiterals(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	schema := arrow.NewSchema([]arrow.Field{{Name: "i", Type: arrow.PrimitiveTypes.Int64, Nullable: true}, {Name: "f", Type: arrow.PrimitiveTypes.Float32, Nullable: true}, {Name: "s", Type: arrow.BinaryTypes.String, Nullable: true}}, nil)
	b := array.NewRecordBuilder(memory.DefaultAllocator, schema)
	for range 3000 {
		b.Field(0).(*array.Int64Builder).Append(rng.Int64N(40) - 20)
		b.Field(1).(*array.Float32Builder).Append([]float32{float32(rng.NormFloat64()), 0.5, float32(math.NaN()), float32(math.Inf(1))}[min(rng.IntN(40), 3)])
		b.Field(2).(*array.StringBuilder).Append(string('a' + rune(rng.IntN(26))))
		if rng.IntN(10) == 0 {
			b.Field(0).(*array.Int64Builder).AppendNull()
			b.Field(1).AppendNull()
			b.Field(2).AppendNull()
		}
	}
	rows := b.NewRecordBatch()
	lists := Lists{
		"int bounds": listOf[int64](t, -5, 0, 7), "bounds": listOf(t, -0.5, 0.1, 0.5, 1e300), "words": listOf(t, "z", "b", "it's", ""),
		"ids": listOf[int64](t, 7, -3, 0),
	}
	for _, c := range [][2]string{
		{`bucketize(i, "int bounds")`, "bucketize(i, [-5, 0, 7])"},
		{"bucketize(f, bounds)", "bucketize(f, [-0.5, 0.1, 0.5, 1e300])"},
		{"bucketize(i, bounds)", "bucketize(i, [-0.5, 0.1, 0.5, 1e300])"},
		{"bucketize(f * 2, bounds) + bucketize(f, bounds)", "bucketize(f * 2, [-0.5, 0.1, 0.5, 1e300]) + bucketize(f, [-0.5, 0.1, 0.5, 1e300])"},
		{"lookup(s, words, -1)", "lookup(s, ['z', 'b', 'it''s', ''], -1)"},
		{"lookup(lower(s), words, NULL)", "lookup(lower(s), ['z', 'b', 'it''s', ''], NULL)"},
		{"lookup(i, ids, 9)", "lookup(i, [7, -3, 0], 9)"},
		{"CASE WHEN lookup(s, words, -1) >= 0 THEN 1 ELSE 0 END", "CASE WHEN lookup(s, ['z', 'b', 'it''s', ''], -1) >= 0 THEN 1 ELSE 0 END"},
	} {
		want := valuesWith(t, c[1], nil, rows)
		got := valuesWith(t, c[0], lists, rows)
		require.True(t, array.Equal(want, got), c[0])

		named, err := ParseValue(c[0])
		require.NoError(t, err)
		named, err = named.WithLists(lists)
		require.NoError(t, err)
		require.Contains(t, named.String(), "FITTED 'sha256:")
		require.True(t, array.Equal(want, valuesWith(t, named.String(), lists.Unnamed(), rows)), named)
	}

	filter, err := Parse("lookup(s, words, -1) >= 0 AND i > 3")
	require.NoError(t, err)
	filter, err = filter.WithLists(lists)
	require.NoError(t, err)
	literal, err := Parse("lookup(s, ['z', 'b', 'it''s', ''], -1) >= 0 AND i > 3")
	require.NoError(t, err)
	var passed [2][]int32
	for i, e := range []*Expr{filter, literal} {
		bound, err := e.Bind(schema)
		require.NoError(t, err)
		passed[i], err = bound.Evaluate(rows, nil, nil)
		require.NoError(t, err)
	}
	require.NotEmpty(t, passed[0])
	require.Equal(t, passed[1], passed[0])
}

// Canonical texts have the digest of the type and the values, and not the names of lists.
//
// spec: fitted-2
func TestDigestsOfFittedLists(t *testing.T) {
	canonical := func(text, name string, l *List) string {
		v, err := ParseValue(text)
		require.NoError(t, err)
		v, err = v.WithLists(Lists{name: l})
		require.NoError(t, err)
		again, err := ParseValue(v.String())
		require.NoError(t, err)
		require.Equal(t, v.String(), again.String())
		return v.String()
	}
	a := canonical("bucketize(x,  a)", "a", listOf(t, 1.0, 2.0))
	require.Equal(t, a, canonical("bucketize(x, b)", "b", listOf(t, 1.0, 2.0)))
	require.Regexp(t, `^bucketize\(x, FITTED 'sha256:[0-9a-f]{64}'\)$`, a)
	for _, other := range []*List{listOf(t, 1.0, 2.5), listOf(t, 1.0), listOf[int64](t, 1, 2), listOf(t, "1.0", "2.0")} {
		require.NotEqual(t, a, canonical("bucketize(x, a)", "a", other))
	}
	require.NotEqual(t, listOf(t, "ab", "c").Digest(), listOf(t, "a", "bc").Digest())
	require.Equal(t, 2, listOf(t, "ab", "c").Len())
}

// spec: fitted-3
func TestFittedListsAreArguments(t *testing.T) {
	schema := arrow.NewSchema([]arrow.Field{{Name: "x", Type: arrow.PrimitiveTypes.Int64, Nullable: true}, {Name: "flag", Type: arrow.FixedWidthTypes.Boolean, Nullable: true}}, nil)
	lists := Lists{"bounds": listOf[int64](t, 1, 2), "words": listOf(t, "a")}
	digest := "FITTED '" + lists["bounds"].Digest() + "'"
	bind := func(text string) error {
		v, err := ParseValue(text)
		if err == nil {
			v, err = v.WithLists(lists)
		}
		if err == nil {
			_, err = v.Bind(schema)
		}
		return err
	}
	for text, want := range map[string]string{
		"x + bounds":              "bounds is a fitted list, which only bucketize and lookup take",
		"x = bounds":              "bounds is a fitted list, which only bucketize and lookup take",
		"bounds BETWEEN 1 AND x":  "bounds is a fitted list, which only bucketize and lookup take",
		"bounds IS NULL AND flag": "bounds is a fitted list, which only bucketize and lookup take",
		"CASE WHEN flag THEN bounds ELSE bounds END":                    "bounds is a fitted list, which only bucketize and lookup take",
		"CAST(bounds AS string) || 'x'":                                 "bounds is a fitted list, which only bucketize and lookup take",
		"x + " + digest:                                                 "is a fitted list, which only bucketize and lookup take",
		"x IN (" + digest + ")":                                         "a fitted list is an argument of a function",
		"bucketize(x, [" + digest + "])":                                "a fitted list is an argument of a function",
		"bucketize(x, FITTED 'sha256:00')":                              "write the name of the list",
		"bucketize(x, FITTED 'md5:" + strings.Repeat("0", 32) + "')":    "write the name of the list",
		"bucketize(x, FITTED 'sha256:" + strings.Repeat("0", 64) + "')": "the dataset has no fitted list with the values",
		"bucketize(5, bounds)":                                          "an expression needs a column",
		"bucketize(x, words)":                                           "bucketize(x, bounds) takes",
		"lookup(x, words)":                                              "lookup(x, values, other) takes",
		"bucketize(x, bound)":                                           `unknown column "bound"`,
		"bucketize(x, bounds.x)":                                        `unknown column "bounds.x"`,
		"length(bounds) + x":                                            "bounds is a fitted list, which only bucketize and lookup take",
		"lookup(x, coalesce(bounds, bounds))":                           "bounds is a fitted list, which only bucketize and lookup take",
		"lookup(x, bounds, 0, 1)":                                       "lookup(x, values, other) takes",
	} {
		err := bind(text)
		require.Equal(t, fault.Invalid, fault.KindOf(err), text)
		require.ErrorContains(t, err, want, text)
	}
	require.NoError(t, bind("bucketize(x, bounds)"))
	_, err := NewList(func() arrow.Array {
		b := array.NewStringBuilder(memory.DefaultAllocator)
		b.AppendValues([]string{"a", "b", "a"}, nil)
		return b.NewArray()
	}())
	require.ErrorContains(t, err, "has the value a twice")
}

// A lookup in a million texts makes no index when it is bound.
func BenchmarkBindFittedList(b *testing.B) {
	words := make([]string, 1<<20)
	for i := range words {
		words[i] = fmt.Sprintf("word %d", i)
	}
	lists := Lists{"words": listOf(b, words...)}
	schema := arrow.NewSchema([]arrow.Field{{Name: "s", Type: arrow.BinaryTypes.String, Nullable: true}}, nil)
	values := array.NewStringBuilder(memory.DefaultAllocator)
	rng := rand.New(rand.NewPCG(1, 1))
	for range 8192 {
		values.Append(words[rng.IntN(len(words))])
	}
	rows := array.NewRecordBatch(schema, []arrow.Array{values.NewArray()}, 8192)
	v, err := ParseValue("lookup(s, words, -1)")
	require.NoError(b, err)
	b.Run("bind", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			v, err := v.WithLists(lists)
			require.NoError(b, err)
			_, err = v.Bind(schema)
			require.NoError(b, err)
		}
	})
	b.Run("rows=8192", func(b *testing.B) {
		v, err := v.WithLists(lists)
		require.NoError(b, err)
		c, err := v.Bind(schema)
		require.NoError(b, err)
		b.ReportAllocs()
		for b.Loop() {
			out, err := c.Evaluate(rows, memory.DefaultAllocator)
			require.NoError(b, err)
			out.Release()
		}
	})
	b.Run("index", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			listOf(b, slices.Clone(words)...)
		}
	})
}
