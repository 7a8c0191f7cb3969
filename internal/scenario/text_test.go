package scenario

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/scenario/cell"
)

// TestWords parses values of every type from words, writes them as words again, and puts
// them into Arrow arrays.
func TestWords(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		kind string
		word string
		want any
	}{
		{"long", "-", nil},
		{"long", "-9223372036854775808", int64(math.MinInt64)},
		{"int", "2147483647", int64(math.MaxInt32)},
		{"boolean", "true", true},
		{"double", "-0", math.Copysign(0, -1)},
		{"double", "+Inf", math.Inf(1)},
		{"float", "0.5", 0.5},
		{"string", "plain", "plain"},
		{"string", `""`, ""},
		{"string", `"-"`, "-"},
		{"string", `"a b"`, "a b"},
		{"string", `"[1]"`, "[1]"},
		{"string", `a"b`, `a"b`},
		{"string", `"\"b"`, `"b`},
		{"string", `"\u0000\n"`, "\x00\n"},
		{"string", "😀", "😀"},
		{"binary", `""`, ""},
		{"binary", "AAH/", "\x00\x01\xff"},
		{"fixed(2)", "AAE=", "\x00\x01"},
		{"uuid", "00000000-0000-0000-0000-0000000000ff", string(make([]byte, 15)) + "\xff"},
		{"date", "1969-12-31", int64(-1)},
		{"date", "@-800000", int64(-800000)},
		{"time", "23:59:59.999999", int64(86399999999)},
		{"timestamp", "1969-12-31T23:59:59.999999", int64(-1)},
		{"timestamptz", "@-9223372036854775808", int64(math.MinInt64)},
		{"timestamptz_ns", "1970-01-01T00:00:00.000000001", int64(1)},
		{"decimal(38,2)", "-999999999999999999999999999999999999.99", cell.Decimal("-999999999999999999999999999999999999.99")},
		{"list<long>", "[1,null,-3]", []any{int64(1), nil, int64(-3)}},
		{"list<string>", `["",null,"null","a,b",c]`, []any{"", nil, "null", "a,b", "c"}},
		{"list<list<int>>", "[[],[1],null]", []any{[]any{}, []any{int64(1)}, nil}},
		{"struct<a:long,b:struct<c:string>>", `{a:null,b:{c:"}"}}`, cell.Struct{nil, cell.Struct{"}"}}},
		{"list<struct<at:timestamp>>", `[{at:"1970-01-01T00:00:00"}]`, []any{cell.Struct{int64(0)}}},
		{"map<string,double>", `{k:NaN,"":null}`, cell.Map{{Key: "k", Value: math.NaN()}, {Key: "", Value: nil}}},
		{"map<string,list<long>>", "{}", cell.Map{}},
	} {
		fields, err := Fields("n:long v:" + test.kind)
		require.NoError(t, err)
		line := "1 " + test.word
		rows, err := parseLines(fields, []string{line})
		require.NoError(t, err)
		want := Texts([][]any{{int64(1), test.want}})
		require.Equal(t, want, Texts(rows), line)
		require.Equal(t, test.word, word(fields[1].Type, rows[0][1]), line)
		b, err := batchOf(fields, rows)
		require.NoError(t, err)
		require.Equal(t, want, Texts(Values(b)), line)
		b.Release()
	}
}

// TestInvalidWordsAreErrors parses words that are not values of their types.
func TestInvalidWordsAreErrors(t *testing.T) {
	t.Parallel()
	for _, test := range [][2]string{
		{"long", "x"},
		{"int", "2147483648"},
		{"string", `"a`},
		{"decimal(9,2)", "0.001"},
		{"fixed(2)", "AA=="},
		{"uuid", "AA=="},
		{"list<long>", "[1"},
		{"list<long>", "1"},
		{"struct<a:long>", "{b:1}"},
		{"struct<a:long,b:long>", "{a:1}"},
		{"map<long,long>", "{1}"},
		{"long", `"1"x`},
	} {
		fields, err := Fields("v:" + test[0])
		require.NoError(t, err)
		_, err = parseLines(fields, []string{test[1]})
		require.Error(t, err, test)
	}
	_, err := Fields("v:wrong<long>")
	require.Error(t, err)
}
