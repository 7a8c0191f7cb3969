package inputs_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/extensions"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/cmd/penstock/inputs"
	"github.com/penstock/penstock/cmd/penstock/rowformat"
	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/fault"
)

// jsonColumns returns a column of each type that JSON lines have.
func jsonColumns() []arrow.Field {
	scalars, err := inputs.ParseTypes(allTypes)
	if err != nil {
		return nil
	}
	long, text := arrow.PrimitiveTypes.Int64, arrow.BinaryTypes.String
	pair := arrow.StructOf(arrow.Field{Name: "x", Type: long, Nullable: true}, arrow.Field{Name: "y", Type: arrow.ListOf(text), Nullable: true})
	return append(
		scalars,
		arrow.Field{Name: "u", Type: extensions.NewUUIDType()}, arrow.Field{Name: "bin", Type: arrow.BinaryTypes.Binary},
		arrow.Field{Name: "four", Type: &arrow.FixedSizeBinaryType{ByteWidth: 4}}, arrow.Field{Name: "list", Type: arrow.ListOf(arrow.ListOf(long))},
		arrow.Field{Name: "pair", Type: pair}, arrow.Field{Name: "map", Type: arrow.MapOf(text, pair)},
		arrow.Field{Name: "half", Type: arrow.FixedWidthTypes.Float16},
	)
}

// jsonIn reads the files of a bucket as JSON lines, and returns the rows as penstock cat prints them.
func jsonIn(t *testing.T, o inputs.Options) ([]string, error) {
	t.Helper()
	o.Budget = budget.New(512 << 20)
	o.Types = func(context.Context) ([]arrow.Field, error) { return jsonColumns(), nil }
	files, err := inputs.Find(t.Context(), []string{"s3://b/"}, o)
	require.NoError(t, err)
	rows, err := inputs.Open(t.Context(), files, o)
	if err != nil {
		require.Zero(t, o.Budget.Used())
		return nil, err
	}
	var out strings.Builder
	w, err := rowformat.New("jsonl", &out, rows.Schema(), 0)
	require.NoError(t, err)
	for rows.Next() {
		require.NoError(t, w.Write(rows.RecordBatch()))
	}
	require.NoError(t, w.Close())
	err = rows.Err()
	rows.Release()
	require.Zero(t, o.Budget.Used())
	return strings.Split(strings.TrimSpace(out.String()), "\n"), err
}

// Rows are read as penstock cat prints them. Fields may be in any order, and those that are missing
// are null.
//
// spec: stage-151
func TestJSONLinesAreRead(t *testing.T) {
	const whole = `{"b":true,"i":1,"l":-2,"f":0.5,"d":1000,"p":"1.50","day":"2026-01-02","at":"10:11:12.000001","ts":"2026-01-02T03:04:05.000006",` +
		`"tz":"2026-01-02T03:04:05Z","s":"a\n\"b\" é","u":"795b929e-9a9a-80fd-ea7b-5bf55eb561a4","bin":"AP8=","four":"AAECAw==",` +
		`"list":[[1,null],[],null],"pair":{"x":1,"y":["a",null]},"map":[["k",{"x":null,"y":null}],["l",null]]}`
	var nulls []string
	for _, f := range jsonColumns()[:17] {
		nulls = append(nulls, fmt.Sprintf("%q:null", f.Name))
	}
	none := "{" + strings.Join(nulls, ",") + "}"
	files, o := bucket()
	files.Put("s3://b/1.jsonl", []byte("\ufeff"+whole+"\n\n  {}\r\n"+none))
	files.Put("s3://b/2.ndjson", []byte(`{"p": 1.5, "d": "NaN", "f": "-Infinity", "pair": {"y": []}, "list": null}`+"\n"))
	got, err := jsonIn(t, o)
	require.NoError(t, err)
	require.Equal(t, []string{whole, none, none}, got[:3])
	require.Contains(t, got[3], `"f":"-Infinity","d":"NaN","p":"1.50"`)
	require.Contains(t, got[3], `"list":null,"pair":{"x":null,"y":[]}`)

	files, o = bucket()
	files.Put("s3://b/1.json", []byte(strings.Repeat(`{"s": "`+strings.Repeat("x", 200)+`"}`+"\n", 20_000)))
	got, err = jsonIn(t, o)
	require.NoError(t, err)
	require.Len(t, got, 20_000)
}

// spec: stage-152
func TestJSONLinesThatAreRefused(t *testing.T) {
	for text, rows := range map[string]string{
		`1.jsonl, line 2: "x" is not a value of column l, which has type long`: "{}\n" + `{"l": "x"}`,
		`1.5 is not a value of column i`:                                       `{"i": 1.5}`,
		`1e400 is not a value of column d`:                                     `{"d": 1e400}`,
		`"5" is not a value of column l`:                                       `{"l": "5"}`,
		`5 is not a value of column s`:                                         `{"s": 5}`,
		`1 is not a value of column b`:                                         `{"b": 1}`,
		`20260101 is not a value of column day`:                                `{"day": 20260101}`,
		`"2026-01-01T00:00:00.0000001" is not a value`:                         `{"ts": "2026-01-01T00:00:00.0000001"}`,
		`1.255 is not a value of column p`:                                     `{"p": 1.255}`,
		`"AA==" is not a value of column four`:                                 `{"four": "AA=="}`,
		`"?" is not a value of column bin`:                                     `{"bin": "?"}`,
		`"a" is not a value of column list[][]`:                                `{"list": [[1], ["a"]]}`,
		`1 is not a value of column list[]`:                                    `{"list": [1]}`,
		`"x" is not a value of column pair.x`:                                  `{"pair": {"x": "x"}}`,
		`column "pair.z"`:                                                      `{"pair": {"z": 1}}`,
		`[ is not a value of column pair`:                                      `{"pair": [1]}`,
		`null, as a key, is not a value of column map`:                         `{"map": [[null, null]]}`,
		`is not a value of column map`:                                         `{"map": [["k"]]}`,
		`neither the table nor --schema has a column "dax"; did you mean`:      `{"dax": 1}`,
		`column half has type float16, which cannot be read from JSON`:         `{"half": 1}`,
		`has two fields "l"`:                                                   `{"l": 1, "l": 2}`,
		`has two fields "pair.x"`:                                              `{"pair": {"x": 1, "x": 2}}`,
		`"\ud800" is not a value of column s`:                                  `{"s": "\ud800"}`,
		`line 1: the line is not UTF-8`:                                        "{\"s\": \"\xff\"}",
		`line 1: the line is not a JSON object`:                                `[{"l": 1}]`,
		`line 1: the line is not JSON`:                                         `{"l": 1`,
		`line 1: the line continues after its JSON object`:                     `{"l": 1} {"l": 2}`,
		`line 2: the line is longer than 4 MiB`:                                "{}\n" + `{"s": "` + strings.Repeat("a", 5<<20) + `"}`,
		`line 1: the line is not JSON: `:                                       "{\n\"l\": 1\n}",
	} {
		files, o := bucket()
		files.Put("s3://b/1.jsonl", []byte(rows))
		_, err := jsonIn(t, o)
		require.Equal(t, fault.Invalid, fault.KindOf(err), "%s: %v", text, err)
		require.ErrorContains(t, err, text)
		require.ErrorContains(t, err, "s3://b/1.jsonl")
	}
	files, o := bucket()
	files.Put("s3://b/1.jsonl", []byte("{}"))
	_, err := rowsIn(t, typed(t, "", o))
	require.ErrorContains(t, err, "neither the table nor --schema gives the types of the columns of s3://b/1.jsonl")
}
