package inputs_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/cmd/penstock/inputs"
	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/fault"
)

// typed returns the options of a bucket, with the types of columns.
func typed(t *testing.T, schema string, o inputs.Options) inputs.Options {
	t.Helper()
	types, err := inputs.ParseTypes(schema)
	require.NoError(t, err)
	o.Types = func(context.Context) ([]arrow.Field, error) { return types, nil }
	o.Budget = budget.New(256 << 20)
	return o
}

// rowsIn reads all files of the bucket.
func rowsIn(t *testing.T, o inputs.Options) ([]string, error) {
	t.Helper()
	files, err := inputs.Find(t.Context(), []string{"s3://b/"}, o)
	require.NoError(t, err)
	rows, err := inputs.Open(t.Context(), files, o)
	if err != nil {
		require.Zero(t, o.Budget.Used())
		return nil, err
	}
	got, err := textsOf(t, rows)
	require.Zero(t, o.Budget.Used())
	return got, err
}

// spec: stage-134
func TestFoldersHaveColumns(t *testing.T) {
	plain := arrow.NewSchema([]arrow.Field{{Name: "id", Type: arrow.PrimitiveTypes.Int64}}, nil)
	for name, c := range map[string]struct {
		folders []string
		schema  string
		types   []arrow.DataType
		want    []string
	}{
		"int":     {[]string{"n=1", "n=2"}, "", []arrow.DataType{arrow.PrimitiveTypes.Int32}, []string{"0 1", "1 2"}},
		"long":    {[]string{"n=1", "n=20000000000"}, "", []arrow.DataType{arrow.PrimitiveTypes.Int64}, []string{"0 1", "1 20000000000"}},
		"date":    {[]string{"day=2026-01-01", "day=__HIVE_DEFAULT_PARTITION__"}, "", []arrow.DataType{arrow.FixedWidthTypes.Date32}, []string{"0 2026-01-01", "1 (null)"}},
		"text":    {[]string{"c=1", "c=a%2Fb+%25"}, "", []arrow.DataType{arrow.BinaryTypes.String}, []string{"0 1", "1 a/b+%"}},
		"given":   {[]string{"n=01", "n=2"}, "n: string", []arrow.DataType{arrow.BinaryTypes.String}, []string{"0 01", "1 2"}},
		"two":     {[]string{"a=1/b=x", "a=1/b=y"}, "", []arrow.DataType{arrow.PrimitiveTypes.Int32, arrow.BinaryTypes.String}, []string{"0 1 x", "1 1 y"}},
		"nothing": {[]string{"a", "b"}, "", nil, []string{"0", "1"}},
	} {
		t.Run(name, func(t *testing.T) {
			files, o := bucket()
			for i, folder := range c.folders {
				files.Put("s3://b/"+folder+"/x.parquet", parquetOf(t, plain, `[{"id": `+string(rune('0'+i))+`}]`))
			}
			o = typed(t, c.schema, o)
			got, err := rowsIn(t, o)
			require.NoError(t, err)
			require.ElementsMatch(t, c.want, got)
			found, err := inputs.Find(t.Context(), []string{"s3://b/"}, o)
			require.NoError(t, err)
			rows, err := inputs.Open(t.Context(), found, o)
			require.NoError(t, err)
			defer rows.Release()
			for i, want := range c.types {
				require.True(t, arrow.TypeEqual(want, rows.Schema().Field(i+1).Type), "%s", rows.Schema())
			}
			o.NoFolderColumns = true
			alone, err := inputs.Open(t.Context(), found, o)
			require.NoError(t, err)
			defer alone.Release()
			require.Equal(t, 1, alone.Schema().NumFields())
		})
	}
}

// spec: stage-134
func TestFoldersThatContradict(t *testing.T) {
	both := arrow.NewSchema([]arrow.Field{{Name: "id", Type: arrow.PrimitiveTypes.Int64}, {Name: "n", Type: arrow.PrimitiveTypes.Int64}}, nil)
	for text, c := range map[string]struct{ files, schema string }{
		"":                                {"n=1/a n=1/b", ""},
		`other values than "2"`:           {"n=1/a n=2/b", ""},
		"folders of":                      {"n=1/a m=1/b", ""},
		"two folders of":                  {"n=1/n=1/a", ""},
		`"x" in the folder of s3://b/n=x`: {"n=x/a", "n: int"},
		"is not encoded":                  {"n=%zz/a", ""},
	} {
		files, o := bucket()
		for name := range strings.FieldsSeq(c.files) {
			files.Put("s3://b/"+name+".parquet", parquetOf(t, both, `[{"id": 5, "n": 1}]`))
		}
		got, err := rowsIn(t, typed(t, c.schema, o))
		if text == "" {
			require.NoError(t, err)
			require.Equal(t, []string{"5 1", "5 1"}, got)
			continue
		}
		require.Equal(t, fault.Invalid, fault.KindOf(err), "%s: %v", text, err)
		require.ErrorContains(t, err, text)
	}
}

const allTypes = "b: boolean, i: int, l: long, f: float, d: double, p: decimal(9, 2), day: date, at: time, ts: timestamp, tz: timestamptz, s: string"

// spec: stage-135
func TestCSVFilesAreRead(t *testing.T) {
	files, o := bucket()
	const head = "b,i,l,f,d,p,day,at,ts,tz,s\n"
	files.Put("s3://b/1.csv", []byte("\ufeff"+head+"true,1,-2,0.5,1e3,1.50,2026-01-02,10:11:12,2026-01-02 03:04:05.000006,2026-01-02T03:04:05Z,\"a,\"\"b\"\"\"\n,,,,,,,,,,\n"))
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	_, err := z.Write([]byte("s,l,b,i,f,d,p,day,at,ts,tz\n(null),7,,,,,,,,,\n"))
	require.NoError(t, err)
	require.NoError(t, z.Close())
	files.Put("s3://b/2.csv.gz", zipped.Bytes())
	small, err := zstd.NewWriter(nil)
	require.NoError(t, err)
	files.Put("s3://b/3.csv.zst", small.EncodeAll([]byte(head+",8,,,,,,,,,last"), nil))
	got, err := rowsIn(t, typed(t, allTypes, o))
	require.NoError(t, err)
	none := strings.Repeat(" (null)", 8)
	require.Equal(t, []string{
		`true 1 -2 0.5 1000 1.5 2026-01-02 10:11:12.000000 2026-01-02T03:04:05.000006 2026-01-02T03:04:05Z a,"b"`,
		"(null) (null)" + none + " (null)", "(null) (null) 7" + none[:len(none)-7] + " (null)", "(null) 8 (null)" + none[:len(none)-7] + " last",
	}, got)

	files.Put("s3://b/2.csv.gz", zipped.Bytes()[:zipped.Len()-6])
	_, err = rowsIn(t, typed(t, allTypes, o))
	require.Equal(t, fault.Invalid, fault.KindOf(err), "%v", err)
	require.ErrorContains(t, err, "s3://b/2.csv.gz cannot be read as CSV")
}

// spec: stage-135
func TestCSVFilesOfManyRows(t *testing.T) {
	files, o := bucket()
	text := "id,s\n" + strings.Repeat("1,"+strings.Repeat("x", 200)+"\n", 20_000)
	files.Put("s3://b/1.csv", []byte(text))
	got, err := rowsIn(t, typed(t, "id: long, s: string", o))
	require.NoError(t, err)
	require.Len(t, got, 20_000)
}

// spec: stage-135, stage-136
func TestCSVFilesThatAreRefused(t *testing.T) {
	for text, rows := range map[string]string{
		"line 3, byte 3: \"x\" is not a value of column l, which has type long": "s,l\na,1\nb,x\n",
		`"2147483648" is not a value of column i`:                               "i\n2147483648\n",
		`"010.5" is not a value of column i`:                                    "i\n010.5\n",
		`"20260101" is not a value of column day`:                               "day\n20260101\n",
		`"5" is not a value of column ts`:                                       "ts\n5\n",
		`"2026-01-01T00:00:00.0000001" is not a value`:                          "ts\n2026-01-01T00:00:00.0000001\n",
		`"1.255" is not a value of column p`:                                    "p\n1.255\n",
		`"12345678.5" is not a value of column p`:                               "p\n12345678.5\n",
		`"(null)" is not a value of column d`:                                   "d\n(null)\n",
		"gives a type for these columns of s3://b/1.csv: z":                     "s,z\n",
		"two columns of s3://b/1.csv":                                           "s,s\n",
		"is empty":                                                              "",
		"wrong number of fields":                                                "s,l\na,1,2\n",
		"bare \" in non-quoted":                                                 "s,l\na\"b,1\n",
		"it may have an unclosed quote":                                         "s,l\n\"" + strings.Repeat("a\n", 3<<20),
	} {
		files, o := bucket()
		files.Put("s3://b/1.csv", []byte(rows))
		_, err := rowsIn(t, typed(t, allTypes, o))
		require.Equal(t, fault.Invalid, fault.KindOf(err), "%s: %v", text, err)
		require.ErrorContains(t, err, text)
		require.ErrorContains(t, err, "s3://b/1.csv")
	}
	files, o := bucket()
	files.Put("s3://b/1.csv", []byte("s\na\n"))
	files.Put("s3://b/2.parquet", nil)
	_, err := rowsIn(t, typed(t, allTypes, o))
	require.ErrorContains(t, err, "have different formats")
	files, o = bucket()
	files.Put("s3://b/1.csv", []byte("s\na\n"))
	files.Put("s3://b/2.csv", []byte("l\n1\n"))
	_, err = rowsIn(t, typed(t, allTypes, o))
	require.ErrorContains(t, err, "does not have column")
}

// spec: stage-136
func TestTypesThatAreNotKnown(t *testing.T) {
	for _, text := range []string{"id", "id: longer", "id: long(1,2)", "p: decimal", "p: decimal(40,2)", "p: decimal(4,5)", "id: long, id: long", "id: long;", ": long"} {
		_, err := inputs.ParseTypes(text)
		require.Equal(t, fault.Invalid, fault.KindOf(err), text)
		require.NotEmpty(t, fault.As(err).Remedy)
	}
	types, err := inputs.ParseTypes(" a b:long,p : decimal(38,0)")
	require.NoError(t, err)
	require.Len(t, types, 2)
}
