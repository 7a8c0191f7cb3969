package fitted

import (
	"encoding/json"
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

	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/fault"
)

// fit fits a list to arrays of values.
func fit(t *testing.T, ask Ask, arrays ...arrow.Array) (List, error) {
	t.Helper()
	b := budget.New(1 << 20)
	f, err := New(ask, arrays[0].DataType(), b)
	require.NoError(t, err)
	for _, a := range arrays {
		require.NoError(t, f.Add(a))
	}
	out, err := f.List()
	f.Release()
	require.Zero(t, b.Used())
	return out, err
}

func values(t *testing.T, of arrow.DataType, text string) arrow.Array {
	t.Helper()
	a, _, err := array.FromJSON(memory.DefaultAllocator, of, strings.NewReader(text))
	require.NoError(t, err)
	return a
}

func texts(list List) []string {
	var out []string
	for _, v := range list.Values {
		out = append(out, string(v))
	}
	return out
}

// spec: stats-100
func TestQuantiles(t *testing.T) {
	p := arrow.PrimitiveTypes
	for _, c := range []struct {
		of   arrow.DataType
		rows string
		n    int
		want []string
	}{
		{p.Int64, `[4, null, 1, 3, 2]`, 4, []string{"1", "2", "3"}},
		{p.Int64, `[4, 1, 3, 2, 5]`, 2, []string{"3"}},
		{p.Int32, `[7, 7, 7, 9]`, 4, []string{"7"}},
		{p.Int64, `[9223372036854775807, -9223372036854775808]`, 2, []string{"-9223372036854775808"}},
		{p.Float64, `[0.1, -0.0, 1e300, 2]`, 4, []string{"0.0", "0.1", "2.0"}},
		{p.Float32, `[0.1, 0.2]`, 2, []string{"0.10000000149011612"}},
		{p.Int64, `[4, 1, 3, 3]`, math.MaxInt, []string{"1", "3", "4"}}, // without a rank for each bucket
	} {
		list, err := fit(t, Ask{Column: "c", Kind: Quantiles, Size: c.n}, values(t, c.of, c.rows))
		require.NoError(t, err)
		require.Equal(t, c.want, texts(list), c.rows)
		require.Equal(t, int64(strings.Count(c.rows, "null")), list.Nulls)
	}
	floats := func(v ...float64) arrow.Array {
		b := array.NewFloat64Builder(memory.DefaultAllocator)
		b.AppendValues(v, nil)
		return b.NewArray()
	}
	list, err := fit(t, Ask{Column: "c", Kind: Quantiles, Size: 2}, floats(math.NaN(), 5), floats(1))
	require.NoError(t, err)
	require.Equal(t, []string{"1.0"}, texts(list))
	require.Equal(t, int64(1), list.NaNs)
	_, err = fit(t, Ask{Column: "c", Kind: Quantiles, Size: 3}, floats(math.Inf(-1), math.Inf(-1), 1))
	require.ErrorContains(t, err, "a quantile of column c is infinite")
}

// The k-th of n quantiles is the smallest value with at least the share k/n of the values at or below it.
//
// spec: stats-100
func TestRandomQuantiles(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		all := make([]int64, 1+rng.IntN(40))
		for i := range all {
			all[i] = rng.Int64N(30)
		}
		slices.Sort(all)
		n := 2 + rng.IntN(60)
		var want []int64
		for k := 1; k < n; k++ {
			for i, v := range all {
				if (i+1)*n >= k*len(all) {
					want = append(want, v)
					break
				}
			}
		}
		require.Equal(t, slices.Compact(want), quantiles(all, n), "%v %d", all, n)
	}
}

// spec: stats-101
func TestVocabularies(t *testing.T) {
	rows := values(t, arrow.BinaryTypes.String, `["b", "a", null, "é\"<", "b", "", "a", "c"]`)
	list, err := fit(t, Ask{Column: "c", Kind: Vocabulary, Size: 4}, rows, rows)
	require.NoError(t, err)
	require.Equal(t, []string{`"a"`, `"b"`, `""`, `"c"`}, texts(list))
	require.Equal(t, []int64{4, 4, 2, 2}, list.Counts)
	require.Equal(t, []int64{2, 5, 2}, []int64{list.Nulls, list.Distinct, list.MinCount})

	list, err = fit(t, Ask{Column: "c", Kind: Vocabulary, Size: 9, MinCount: 2}, values(t, arrow.PrimitiveTypes.Int32, `[5, -1, 5, -1, 3]`))
	require.NoError(t, err)
	require.Equal(t, []string{"-1", "5"}, texts(list))
	_, err = fit(t, Ask{Column: "c", Kind: Vocabulary, Size: 9, MinCount: 2}, values(t, arrow.PrimitiveTypes.Int32, `[5, -1]`))
	require.ErrorContains(t, err, "column c has no value for a list")
}

// spec: stats-102, stats-104
func TestListsThatCannotBeFitted(t *testing.T) {
	for _, c := range []struct {
		kind Kind
		of   arrow.DataType
	}{{Quantiles, arrow.BinaryTypes.String}, {Quantiles, arrow.FixedWidthTypes.Boolean}, {Vocabulary, arrow.PrimitiveTypes.Float64}, {Vocabulary, arrow.BinaryTypes.Binary}} {
		_, err := New(Ask{Column: "c", Kind: c.kind, Size: 2}, c.of, nil)
		require.Equal(t, fault.Invalid, fault.KindOf(err), "%s %s", c.kind, c.of)
	}
	var many strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&many, ", %d", i)
	}
	rows := values(t, arrow.PrimitiveTypes.Int64, "["+many.String()[2:]+"]")
	for _, kind := range []Kind{Quantiles, Vocabulary} {
		b := budget.New(10_000)
		f, err := New(Ask{Column: "c", Kind: kind, Size: 2}, rows.DataType(), b)
		require.NoError(t, err)
		err = f.Add(rows)
		require.Equal(t, fault.Exhausted, fault.KindOf(err), err)
		require.ErrorContains(t, err, "because lists are exact")
		f.Release()
		require.Zero(t, b.Used())
	}
}

// spec: stats-103
func TestFilesAreDeterministic(t *testing.T) {
	rows := values(t, arrow.BinaryTypes.String, `["<b>", "a"]`)
	var contents []string
	for range 2 {
		list, err := fit(t, Ask{Column: "c", Kind: Vocabulary, Size: 4}, rows)
		require.NoError(t, err)
		content, err := File{From: "ml.t", Snapshots: json.RawMessage(`{"training": {"snapshot": "7"}}`), Rows: 2, Lists: []List{list}}.Bytes()
		require.NoError(t, err)
		contents = append(contents, string(content))
	}
	require.Equal(t, contents[0], contents[1])
	require.JSONEq(t, `{"version": 1, "from": "ml.t", "snapshots": {"training": {"snapshot": "7"}}, "rows": 2, "lists": [{
		"column": "c", "kind": "vocabulary", "asked": 4, "type": "utf8", "nulls": 0, "distinct": 2, "min_count": 1, "values": ["<b>", "a"], "counts": [1, 1]}]}`, contents[0])
	require.Equal(t, "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855", Digest(nil))
}

// Texts do not refer to the memory of batches, which is used again.
//
// spec: stats-101
func TestTextsAreCopied(t *testing.T) {
	data := []byte("CHDECH")
	rows := array.NewStringData(array.NewData(arrow.BinaryTypes.String, 3, []*memory.Buffer{
		nil, memory.NewBufferBytes(arrow.Int32Traits.CastToBytes([]int32{0, 2, 4, 6})), memory.NewBufferBytes(data),
	}, nil, 0, 0))
	f, err := New(Ask{Column: "c", Kind: Vocabulary, Size: 2}, rows.DataType(), nil)
	require.NoError(t, err)
	defer f.Release()
	require.NoError(t, f.Add(rows))
	copy(data, "??????")
	list, err := f.List()
	require.NoError(t, err)
	require.Equal(t, []string{`"CH"`, `"DE"`}, texts(list))
}
