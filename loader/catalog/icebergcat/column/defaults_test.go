package column_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/apache/iceberg-go"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/catalog/icebergcat"
	"github.com/penstock/penstock/loader/catalog/icebergcat/icebergtest"
	"github.com/penstock/penstock/loader/dataset"
)

// withFields makes a table of format version 3 whose metadata has these fields, as written
// here, after id.
func withFields(t *testing.T, w *icebergtest.Writer, fields string) {
	t.Helper()
	w.Create(t, icebergtest.Events, iceberg.NewSchema(0, icebergtest.IDSchema().Field(0)), icebergtest.FormatVersion("3"))
	w.WithSchemas(t, `[{"type":"struct","schema-id":0,"fields":[{"id":1,"name":"id","type":"int","required":false},`+fields+`]}]`, 0)
}

// defaultOf reads the initial default of a column of a type, which is in the metadata as a text
// of JSON.
func defaultOf(t *testing.T, kind, written string) (*catalog.Table, error) {
	t.Helper()
	w := icebergtest.NewWriter(t)
	if !strings.HasPrefix(kind, "{") {
		kind = fmt.Sprintf("%q", kind)
	}
	withFields(t, w, fmt.Sprintf(`{"id":2,"name":"a","type":%s,"required":false,"initial-default":%s}`, kind, written))
	return w.Open(t).Table(t.Context(), icebergtest.Events, dataset.Ref{})
}

// TestInitialDefaults compares defaults with the specification's table of JSON single-value
// serialization, where it has an example.
//
// spec: resolve-70
func TestInitialDefaults(t *testing.T) {
	for i, c := range []struct{ kind, written, want string }{
		{"boolean", `true`, "true"},
		{"int", `34`, "34"},
		{"int", `-2147483648`, "-2147483648"},
		{"long", `9007199254740993`, "9007199254740993"}, // no float is so
		{"long", `-9223372036854775808`, "-9223372036854775808"},
		{"float", `1.0`, "1"},
		{"float", `0.1`, "0.1"},
		{"float", `7`, "7"},
		{"double", `1.0`, "1"},
		{"double", `0.1`, "0.1"},
		{"double", `-1.7976931348623157e308`, "-1.7976931348623157e+308"},
		{"decimal(9,2)", `"14.20"`, "14.2"},
		{"decimal(9,2)", `"-14.2"`, "-14.2"},
		{"decimal(9,2)", `"1420E-2"`, "14.2"},
		{"decimal(9,2)", `"1.42e+1"`, "14.2"},
		{"decimal(9,0)", `"2E+8"`, "200000000"},
		{"decimal(9,2)", `"1E+2"`, "100"}, // as PyIceberg writes one
		{"decimal(38,10)", `"0E-10"`, "0"},
		{"decimal(38,10)", `"9999999999999999999999999999.9999999999"`, "9999999999999999999999999999.9999999999"},
		{"date", `"2017-11-16"`, "2017-11-16"},
		{"date", `"1969-12-31"`, "1969-12-31"},
		{"date", `"2024-02-29"`, "2024-02-29"},
		{"date", `"0001-01-01"`, "0001-01-01"},
		{"time", `"22:31:08.123456"`, "22:31:08.123456"},
		{"time", `"22:31:08"`, "22:31:08.000000"},
		{"time", `"22:31"`, "22:31:00.000000"},
		{"timestamp", `"2017-11-16T22:31:08.123456"`, "2017-11-16T22:31:08.123456"},
		{"timestamp", `"1969-12-31T23:59:59.9"`, "1969-12-31T23:59:59.9"},
		{"timestamp", `"2017-11-16T22:31"`, "2017-11-16T22:31:00"},
		{"timestamptz", `"2017-11-16T22:31:08.123456+00:00"`, "2017-11-16T22:31:08.123456Z"},
		{"timestamptz", `"2017-11-16T22:31:08Z"`, "2017-11-16T22:31:08Z"},
		{"timestamp_ns", `"2017-11-16T22:31:08.123456789"`, "2017-11-16T22:31:08.123456789"},
		{"timestamptz_ns", `"2017-11-16T22:31:08.123456789+00:00"`, "2017-11-16T22:31:08.123456789Z"},
		{"string", `"iceberg"`, "iceberg"},
		{"string", `""`, ""},
		{"uuid", `"f79c3e09-677c-4bbd-a479-3f349cb785e7"`, "95w+CWd8S72keT80nLeF5w=="},
		{"fixed[4]", `"000102ff"`, "AAEC/w=="},
		{"binary", `"000102FF"`, "AAEC/w=="},
		{"binary", `""`, ""},
		{`{"type":"list","element-id":3,"element":"long","element-required":false}`, `[1,null,9007199254740993]`, "[1,null,9007199254740993]"},
		{`{"type":"list","element-id":3,"element":"date","element-required":true}`, `[]`, "[]"},
		{
			`{"type":"map","key-id":3,"key":"string","value-id":4,"value":"int","value-required":false}`,
			`{"keys":["a","b"],"values":[1,null]}`, `[{"key":"a","value":1},{"key":"b","value":null}]`,
		},
		{
			`{"type":"list","element-id":3,"element":{"type":"struct","fields":[{"id":4,"name":"x","type":"int","required":true},{"id":5,"name":"y","type":"date","required":false}]},"element-required":true}`,
			`[{"4":1,"5":null},{"5":"1970-01-02","4":2}]`, `[{"x":1,"y":null},{"x":2,"y":"1970-01-02"}]`,
		},
	} {
		t.Run(strconv.Itoa(i), func(t *testing.T) {
			table, err := defaultOf(t, c.kind, c.written)
			require.NoError(t, err, "%s %s", c.kind, c.written)
			got := table.Defaults[2]
			require.Equal(t, 1, got.Len())
			a, _ := table.Field("a")
			require.Equal(t, a.Type.String(), got.DataType().String())
			require.Equal(t, c.want, got.ValueStr(0))
			require.False(t, got.IsNull(0))
		})
	}
	for name, fields := range map[string]string{
		"none":                       `{"id":2,"name":"a","type":"int","required":false}`,
		"null":                       `{"id":2,"name":"a","type":"int","required":false,"initial-default":null}`,
		"one that only writers know": `{"id":2,"name":"a","type":"int","required":false,"write-default":7}`,
	} {
		t.Run(name, func(t *testing.T) {
			w := icebergtest.NewWriter(t)
			withFields(t, w, fields)
			table, err := w.Open(t).Table(t.Context(), icebergtest.Events, dataset.Ref{})
			require.NoError(t, err)
			require.Empty(t, table.Defaults)
		})
	}
}

// TestInvalidDefaults checks that nothing is rounded, truncated or guessed.
//
// spec: resolve-72
func TestInvalidDefaults(t *testing.T) {
	list := func(element string, required bool) string {
		return fmt.Sprintf(`{"type":"list","element-id":3,"element":%s,"element-required":%v}`, element, required)
	}
	pair := `{"type":"struct","fields":[{"id":4,"name":"x","type":"int","required":false},{"id":5,"name":"y","type":"int","required":true}]}`
	for i, c := range []struct{ kind, written string }{
		{"boolean", `"true"`},
		{"boolean", `1`},
		{"int", `2147483648`},
		{"int", `1.5`},
		{"int", `"1"`},
		{"int", `1e2`},
		{"int", `true`},
		{"int", `[1]`},
		{"long", `9223372036854775808`},
		{"float", `1e39`},
		{"float", `"NaN"`},
		{"decimal(9,2)", `"14.205"`},
		{"decimal(9,2)", `"12345678.90"`},
		{"decimal(9,2)", `14.20`},
		{"decimal(9,2)", `""`},
		{"decimal(9,2)", `"1E+999"`},
		{"decimal(9,2)", `"0x10"`},
		{"date", `"2017-02-29"`},
		{"date", `"2017-13-01"`},
		{"date", `"17-01-01"`},
		{"date", `17486`},
		{"date", `"2017-11-16T00:00:00"`},
		{"date", `"+9999999-01-01"`},
		{"time", `"24:00:00"`},
		{"time", `"22:60:00"`},
		{"time", `"22:31:08.1234567"`},
		{"time", `"22:31:08+00:00"`},
		{"timestamp", `"2017-11-16T22:31:08+00:00"`},
		{"timestamp", `"2017-11-16 22:31:08"`},
		{"timestamp", `"2017-11-16"`},
		{"timestamp", `"2017-11-16T22:31:08.123456789"`},
		{"timestamp", `"+9999999-01-01T00:00:00"`},
		{"timestamptz", `"2017-11-16T22:31:08"`},
		{"timestamptz", `"2017-11-16T22:31:08+01:00"`},
		{"timestamp_ns", `"2262-04-11T23:47:16.854775808"`},
		{"string", `1`},
		{"uuid", `"f79c3e09677c4bbda4793f349cb785e7"`},
		{"uuid", `"x79c3e09-677c-4bbd-a479-3f349cb785e7"`},
		{"fixed[4]", `"0001"`},
		{"binary", `"0"`},
		{"binary", `"AAEC/w=="`},
		{list(`"int"`, true), `[1,null]`},
		{list(`"int"`, false), `["1"]`},
		{list(pair, true), `[{}]`},
		{list(pair, true), `[{"4":1}]`},
		{list(pair, true), `[{"4":1,"5":null}]`},
		{list(pair, true), `[{"4":1,"6":2}]`},
		{list(pair, true), `[[1]]`},
		{`{"type":"map","key-id":3,"key":"string","value-id":4,"value":"int","value-required":true}`, `{"keys":["a"],"values":[null]}`},
		{`{"type":"map","key-id":3,"key":"string","value-id":4,"value":"int","value-required":false}`, `{"keys":[null],"values":[1]}`},
		{`{"type":"map","key-id":3,"key":"string","value-id":4,"value":"int","value-required":false}`, `{"keys":["a"],"values":[1,2]}`},
		{`{"type":"map","key-id":3,"key":"string","value-id":4,"value":"int","value-required":false}`, `{"a":1}`},
		{pair, `{"4":1,"5":2}`},
		{pair, `{}`},
	} {
		t.Run(strconv.Itoa(i), func(t *testing.T) {
			_, err := defaultOf(t, c.kind, c.written)
			require.Equal(t, fault.Corrupt, fault.KindOf(err), "%s %s: %v", c.kind, c.written, err)
			require.ErrorContains(t, err, `the initial default of column "a" (field id 2) of table ml.events: `)
		})
	}
}

// TestDefaultsOfStructs checks that these are made of the defaults of their fields, at any
// depth, including structs in lists and maps, which are identified by field id.
//
// spec: resolve-71
func TestDefaultsOfStructs(t *testing.T) {
	w := icebergtest.NewWriter(t)
	withFields(t, w, `
		{"id":2,"name":"point","required":false,"initial-default":{},"type":{"type":"struct","fields":[
			{"id":3,"name":"x","type":"long","required":true,"initial-default":9007199254740993},
			{"id":4,"name":"in","required":false,"initial-default":{},"type":{"type":"struct","fields":[
				{"id":5,"name":"z","type":"string","required":false,"initial-default":"deep"},
				{"id":6,"name":"none","type":"string","required":false}]}},
			{"id":7,"name":"out","required":false,"type":{"type":"struct","fields":[
				{"id":8,"name":"z","type":"int","required":false,"initial-default":8}]}}]}},
		{"id":9,"name":"l","required":false,"type":{"type":"list","element-id":10,"element-required":true,"element":
			{"type":"struct","fields":[{"id":11,"name":"x","type":"int","required":false,"initial-default":11}]}}},
		{"id":12,"name":"m","required":false,"type":{"type":"map","key-id":13,"key":"int","value-id":14,"value-required":true,"value":
			{"type":"struct","fields":[{"id":15,"name":"x","type":"int","required":false,"initial-default":15}]}}}`)
	table, err := w.Open(t).Table(t.Context(), icebergtest.Events, dataset.Ref{})
	require.NoError(t, err)
	got := map[int]string{}
	for id, value := range table.Defaults {
		got[id] = value.ValueStr(0)
	}
	require.Equal(t, map[int]string{
		2: `{"in":{"none":null,"z":"deep"},"out":null,"x":9007199254740993}`, 3: "9007199254740993",
		4: `{"none":null,"z":"deep"}`, 5: "deep", 8: "8", 11: "11", 15: "15",
	}, got)
}

// TestDefaultsAreCharged checks the charge for decoding the metadata's text a second time.
func TestDefaultsAreCharged(t *testing.T) {
	w := icebergtest.NewWriter(t)
	withFields(t, w, `{"id":2,"name":"a","type":"string","required":false,"initial-default":"`+strings.Repeat("x", 1<<20)+`"}`)
	for limit, fits := range map[int64]bool{5 << 20: false, 8 << 20: true} {
		o := w.Options()
		o.Budget = budget.New(limit)
		reader, err := icebergcat.Open(t.Context(), o)
		require.NoError(t, err)
		_, err = reader.Table(t.Context(), icebergtest.Events, dataset.Ref{})
		if fits {
			require.NoError(t, err)
		} else {
			require.Equal(t, fault.Exhausted, fault.KindOf(err), "%v", err)
		}
		require.Zero(t, o.Budget.Used())
	}
}
