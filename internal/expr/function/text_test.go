package function

import (
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/fault"
)

// TestLettersThatDifferFail checks letters whose case depends on the engine.
//
// spec: function-12
func TestLettersThatDifferFail(t *testing.T) {
	t.Parallel()
	for name, letters := range map[string]string{"lower": "İΣ", "upper": "ßŉǰΐﬁᾳ"} {
		for _, letter := range letters {
			_, err := call(t, name, []generator{strs()}, []any{"a" + string(letter)})
			require.Equal(t, fault.Invalid, fault.KindOf(err), "%s of %c", name, letter)
		}
	}
	for _, space := range "\u00a0\u2003\u3000" {
		_, err := call(t, "trim", []generator{strs()}, []any{" a" + string(space) + " "})
		require.Equal(t, fault.Invalid, fault.KindOf(err), "%q", space)
	}
}

// TestTextsMustBeUTF8 checks that characters are counted only in valid texts.
//
// spec: function-11
func TestTextsMustBeUTF8(t *testing.T) {
	t.Parallel()
	three := literal(ints32().dt, int32(3), "3")
	for _, c := range []trial{
		{name: "length", args: []generator{strs()}},
		{name: "lower", args: []generator{strs()}},
		{name: "left", args: []generator{strs(), three}},
		{name: "substring", args: []generator{strs(), three}},
	} {
		columns := [][]any{{"a\xff"}}
		if len(c.args) == 2 {
			columns = append(columns, []any{int32(3)})
		}
		_, err := call(t, c.name, c.args, columns...)
		require.ErrorContains(t, err, "UTF-8", c.name)
	}
}

// TestCaseMayLengthenTexts maps letters of two bytes to letters of three, which is the largest growth.
func TestCaseMayLengthenTexts(t *testing.T) {
	t.Parallel()
	out, err := call(t, "upper", []generator{strs()}, []any{strings.Repeat("\u023f", 1000)})
	require.NoError(t, err)
	require.Equal(t, strings.Repeat("\u2c7e", 1000), out.(*array.String).Value(0))
	out.Release()
}

// TestSumsAreChecked checks that a sum beyond the range of long fails, although parts of it may be.
func TestSumsAreChecked(t *testing.T) {
	t.Parallel()
	of := []generator{listsOfRandom(ints64())}
	_, err := call(t, "array_sum", of, []any{[]any{int64(1<<63 - 1), int64(1)}})
	require.ErrorContains(t, err, "out of the range")
	out, err := call(t, "array_sum", of, []any{[]any{int64(1<<63 - 1), int64(1), int64(-1)}})
	require.NoError(t, err)
	require.Equal(t, int64(1<<63-1), out.(*array.Int64).Value(0))
	out.Release()
}
