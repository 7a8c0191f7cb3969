package joiner_test

import (
	"fmt"
	"strconv"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/joiner"
	"github.com/penstock/penstock/joiner/joinertest"
)

// wordTable has ids, and words of which few are distinct.
func wordTable(t *testing.T, rows int) joinertest.Table {
	x := joinertest.Table{Name: "words", Fields: joinertest.Columns(t, "id long", "word string"), Cuts: []int{rows / 5, rows / 4, rows / 3}}
	for i := range rows {
		x.Rows = append(x.Rows, []string{strconv.Itoa(i), fmt.Sprintf("a word that is long %d", i%7)})
	}
	return x
}

// TestRepeatedTextsOfBuildSidesAreCodes builds one build side from columns with codes and without,
// which takes a part of the memory of one without codes and has the same rows.
func TestRepeatedTextsOfBuildSidesAreCodes(t *testing.T) {
	limit := budget.New(1 << 30)
	opts := joiner.Options{Memory: joinertest.Checked(t), Budget: limit}
	x := wordTable(t, 2000)
	build := func(coded []int) *joiner.BuildSide {
		x.Coded = coded
		built, err := joiner.Build(t.Context(), x.Input(t, opts.Memory, []int{0}, []int{1}), joiner.BuildSpec{Name: "words"}, opts)
		require.NoError(t, err)
		t.Cleanup(built.Release)
		require.GreaterOrEqual(t, built.Bytes(), joiner.Holds(built))
		return built
	}
	plain, coded := build(nil), build([]int{1})
	require.Less(t, 2*coded.Bytes(), plain.Bytes())
	one, many := plain.Dictionary().Field(0), coded.Dictionary().Field(0)
	require.IsType(t, &array.String{}, one)
	require.Equal(t, plain.Dictionary().DataType(), coded.Dictionary().DataType(), "types name those of values")
	require.Equal(t, 8, many.(*array.Dictionary).Dictionary().Len(), "the distinct values, and the empty one of nulls")
	for i := range one.Len() {
		require.Equal(t, one.ValueStr(i), many.ValueStr(i))
	}
}

// TestCodesThatDoNotFitBecomeValues builds with ever less memory: rows without room for merging
// their dictionaries have values.
func TestCodesThatDoNotFitBecomeValues(t *testing.T) {
	x := wordTable(t, 300)
	x.Coded = []int{1}
	forms := map[string]int{}
	for bytes := int64(1000); bytes < 80_000; bytes += 500 {
		opts := joiner.Options{Memory: joinertest.Checked(t), Budget: budget.New(bytes)}
		built, err := joiner.Build(t.Context(), x.Input(t, opts.Memory, []int{0}, []int{1}), joiner.BuildSpec{Name: "words"}, opts)
		if err != nil {
			require.Equal(t, fault.Exhausted, fault.KindOf(err))
			forms["none"]++
		} else {
			forms[fmt.Sprintf("%T", built.Dictionary().Field(0))]++
			built.Release()
		}
		require.Zero(t, opts.Budget.Used())
	}
	for _, form := range []string{"none", "*array.String", "*array.Dictionary"} {
		require.NotZero(t, forms[form], "%s: %v", form, forms)
	}
}

// TestCodedColumnsThatAreComparedAreRefused checks that the joiner does not read codes as values.
func TestCodedColumnsThatAreComparedAreRefused(t *testing.T) {
	opts := joiner.Options{Memory: joinertest.Checked(t)}
	x := wordTable(t, 20)
	x.Coded = []int{1}
	for name, c := range map[string]struct {
		key, columns []int
		spec         joiner.BuildSpec
	}{
		"a key":               {[]int{1}, []int{0}, joiner.BuildSpec{}},
		"a key that is shown": {[]int{1}, []int{0, 1}, joiner.BuildSpec{}},
		"an order":            {[]int{0}, []int{1}, joiner.BuildSpec{OrderBy: []joiner.Order{{Column: 1}}}},
	} {
		_, err := joiner.Build(t.Context(), x.Input(t, opts.Memory, c.key, c.columns), c.spec, opts)
		require.ErrorContains(t, err, "column word is", name)
		require.Equal(t, fault.Internal, fault.KindOf(err), name)
	}
	in := x.Input(t, opts.Memory, []int{1}, []int{0, 1})
	err := in.ReadAll(t.Context(), func(*arrow.Schema) error { return nil }, func(arrow.RecordBatch) error { return nil })
	require.ErrorContains(t, err, "column word is dictionary")
}
