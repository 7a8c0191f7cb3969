package joiner_test

import (
	"context"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/joiner"
	"github.com/penstock/penstock/joiner/joinertest"
	"github.com/penstock/penstock/joiner/rule"
)

// One training table (request, item) in batches of two rows, one staging table
// (req, country) in batches of two.
const (
	someTraining = "7 a, 7 b, 9 c, - d, 8 e"
	someStaging  = "8 fr, 7 de, - xx, 5 it"
)

// spec: join-7, join-11, join-12, join-13, join-14, join-15, join-16, join-18
func TestOneStagingTable(t *testing.T) {
	cases := map[string]struct {
		training, staging string
		rule              joiner.Rule
		want              string
		counts            joiner.Counts
		fails             string
	}{
		"left": {
			someTraining, someStaging,
			joiner.Rule{},
			"7 a de, 7 b de, 9 c -, - d -, 8 e fr",
			joiner.Counts{Rows: 5, Matched: 3, Missing: 2, NullKeys: 1},
			"",
		},
		"inner": {
			someTraining, someStaging,
			joiner.Rule{Kind: rule.Inner},
			"7 a de, 7 b de, 8 e fr",
			joiner.Counts{Rows: 5, Matched: 3, Missing: 2, NullKeys: 1},
			"",
		},
		"missing is an error": {
			someTraining, someStaging,
			joiner.Rule{Missing: rule.MissingError},
			"",
			joiner.Counts{},
			"join history: no row of history has the key request=9 (file training-1.parquet); " +
				"set `missing: null` or `join: inner` for history, or add the row",
		},
		"missing is an error of an inner join": {
			someTraining, someStaging,
			joiner.Rule{Kind: rule.Inner, Missing: rule.MissingError},
			"",
			joiner.Counts{},
			"join history: no row of history has the key request=9 (file training-1.parquet); set `missing: null` for history, or add the row",
		},
		"a null key is missing": {
			"7 a, - b", someStaging,
			joiner.Rule{Missing: rule.MissingError},
			"",
			joiner.Counts{},
			"join history: a null key matches no row of history: request=null (file training-0.parquet); " +
				"set `missing: null` or `join: inner` for history, or add the row",
		},
		"nothing missing": {
			"7 a, 8 b", someStaging, joiner.Rule{Missing: rule.MissingError}, "7 a de, 8 b fr", joiner.Counts{Rows: 2, Matched: 2}, "",
		},
		"duplicates are an error": {
			"8 a, 7 b", "7 de, 5 it, 7 fr, 8 it, 7 es",
			joiner.Rule{},
			"",
			joiner.Counts{},
			"join history: several rows of history have the key request=7, in files staging-0.parquet and staging-2.parquet; " +
				"if they have different times, set `point_in_time` or `align`, which exclude rows from the future; otherwise set `duplicates: first` or `duplicates: last` for history, or clean the table",
		},
		"duplicates in one file": {
			"8 a, 7 b", "7 de, 7 fr",
			joiner.Rule{},
			"",
			joiner.Counts{},
			"join history: several rows of history have the key request=7, in file staging-0.parquet; " +
				"if they have different times, set `point_in_time` or `align`, which exclude rows from the future; otherwise set `duplicates: first` or `duplicates: last` for history, or clean the table",
		},
		"the first of duplicates": {
			"8 a, 7 b, 7 c", "7 de, 5 it, 7 fr, 8 it, 7 es",
			joiner.Rule{Duplicates: rule.DuplicatesFirst},
			"8 a it, 7 b de, 7 c de",
			joiner.Counts{Rows: 3, Matched: 3, Duplicates: 2, Resolved: 2},
			"",
		},
		"the last of duplicates": {
			"8 a, 7 b, 7 c", "7 de, 5 it, 7 fr, 8 it, 7 es",
			joiner.Rule{Duplicates: rule.DuplicatesLast},
			"8 a it, 7 b es, 7 c es",
			joiner.Counts{Rows: 3, Matched: 3, Duplicates: 2, Resolved: 2},
			"",
		},
		"duplicates without a training row": {
			"8 a, 5 b", "7 de, 5 it, 7 fr, 8 it, 7 es", joiner.Rule{}, "8 a it, 5 b it", joiner.Counts{Rows: 2, Matched: 2}, "",
		},
		"null keys are not duplicates of each other": {
			"- a, - b", "- de, - it", joiner.Rule{}, "- a -, - b -", joiner.Counts{Rows: 2, Missing: 2, NullKeys: 2}, "",
		},
		"a key equal to the value under a null": {
			"- a, 0 b", "- de, 0 it, - fr", joiner.Rule{}, "- a -, 0 b it", joiner.Counts{Rows: 2, Matched: 1, Missing: 1, NullKeys: 1}, "",
		},
		"zero is not null":     {"0 a", "- de", joiner.Rule{}, "0 a -", joiner.Counts{Rows: 1, Missing: 1}, ""},
		"no training rows":     {"", someStaging, joiner.Rule{Missing: rule.MissingError}, "", joiner.Counts{}, ""},
		"no staging rows":      {"7 a, - b", "", joiner.Rule{}, "7 a -, - b -", joiner.Counts{Rows: 2, Missing: 2, NullKeys: 1}, ""},
		"inner with none left": {"1 a, 2 b, 3 c", someStaging, joiner.Rule{Kind: rule.Inner}, "", joiner.Counts{Rows: 3, Missing: 3}, ""},
		"negative keys":        {"-7 a, 7 b", "-7 de", joiner.Rule{}, "-7 a de, 7 b -", joiner.Counts{Rows: 2, Matched: 1, Missing: 1}, ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			mem := joinertest.Checked(t)
			c.rule.Name = "history"
			training := joinertest.Table{Name: "training", Fields: joinertest.Columns(t, "request long", "item string"), Rows: joinertest.Parse(c.training), Cuts: joinertest.Twos(c.training)}
			staging := joinertest.Table{Name: "staging", Fields: joinertest.Columns(t, "req int", "country string"), Rows: joinertest.Parse(c.staging), Cuts: joinertest.Twos(c.staging)}
			opts := joiner.Options{Memory: mem}
			r, err := joiner.Join(t.Context(), training.Input(t, mem, nil, []int{0, 1}), []joiner.Probe{staging.Probe(t, 1, c.rule, joiner.BuildSpec{}, opts)}, opts)
			require.NoError(t, err)
			joinertest.ComesTo(t, r, c.want, c.counts, c.fails)
		})
	}
}

// spec: join-12, join-17, join-18
func TestSeveralStagingTables(t *testing.T) {
	training := joinertest.Table{Name: "training", Fields: joinertest.Columns(t, "request long", "user string", "item int"), Cuts: []int{3}, Rows: joinertest.Parse("1 u 10, 2 v 20, 1 - 30, 3 u 40, 2 u 50")}
	byRequest := joinertest.Table{Name: "requests", Fields: joinertest.Columns(t, "id long", "score float"), Rows: joinertest.Parse("1 0.5, 2 0.25")}
	byUser := joinertest.Table{Name: "users", Fields: joinertest.Columns(t, "country string", "name string"), Rows: joinertest.Parse("de u, it w, fr u")}
	byBoth := joinertest.Table{Name: "pairs", Fields: joinertest.Columns(t, "name string", "id int", "seen long"), Rows: joinertest.Parse("u 1 11, u 2 22, v 1 33")}
	builds := []joinertest.Staging{
		{Table: byRequest, Key: []int{0}, At: []int{0}, Columns: []int{1}, Rule: joiner.Rule{Name: "requests", Kind: rule.Inner}},
		{Table: byUser, Key: []int{1}, At: []int{1}, Columns: []int{0}, Rule: joiner.Rule{Name: "users", Duplicates: rule.DuplicatesLast}},
		{Table: byBoth, Key: []int{0, 1}, At: []int{1, 0}, Columns: []int{2}, Rule: joiner.Rule{Name: "pairs"}},
	}
	run := func(t *testing.T, change func([]joinertest.Staging)) ([]string, []joiner.Counts, error) {
		builds := append([]joinertest.Staging(nil), builds...)
		change(builds)
		mem := joinertest.Checked(t)
		var probes []joiner.Probe
		for _, s := range builds {
			probes = append(probes, joiner.Probe{
				Rule: s.Rule, Key: s.At, Columns: []arrow.Field{s.Fields[s.Columns[0]]},
				BuildSide: joinertest.Built(s.Input(t, mem, s.Key, s.Columns), joiner.BuildSpec{Name: s.Rule.Name}, joiner.Options{Memory: mem}),
			})
		}
		r, err := joiner.Join(t.Context(), training.Input(t, mem, nil, []int{2, 0}), probes, joiner.Options{Memory: mem})
		require.NoError(t, err)
		return joinertest.Drain(t, r)
	}

	t.Run("rows and counts", func(t *testing.T) {
		rows, counts, err := run(t, func([]joinertest.Staging) {})
		require.NoError(t, err)
		require.Equal(t, []string{
			"10 1 0.5 fr 11", "20 2 0.25 (null) (null)", "30 1 0.5 (null) (null)", "50 2 0.25 fr 22",
		}, rows)
		require.Equal(t, []joiner.Counts{
			{Rows: 5, Matched: 4, Missing: 1},
			{Rows: 5, Matched: 3, Missing: 2, NullKeys: 1, Duplicates: 3, Resolved: 3},
			{Rows: 5, Matched: 2, Missing: 3, NullKeys: 1},
		}, counts)
	})
	t.Run("a dropped row breaks another table's rule", func(t *testing.T) {
		_, _, err := run(t, func(s []joinertest.Staging) { s[0].Rule.Missing = rule.MissingError })
		require.ErrorContains(t, err, "no row of requests has the key request=3 (file training-1.parquet)")
	})
	t.Run("the first row that breaks a rule", func(t *testing.T) {
		_, _, err := run(t, func(s []joinertest.Staging) {
			s[1].Rule.Duplicates = rule.DuplicatesError // at row 0
			s[2].Rule.Missing = rule.MissingError       // at row 1
			s[0].Rule.Missing = rule.MissingError       // at row 3
		})
		require.ErrorContains(t, err, `several rows of users have the key user="u", in file users-0.parquet`)
		_, _, err = run(t, func(s []joinertest.Staging) {
			s[0].Rule.Missing = rule.MissingError // at row 3
			s[2].Rule.Missing = rule.MissingError // at row 1
			s[1].Rule.Missing = rule.MissingError // at row 1
		})
		require.ErrorContains(t, err, `no row of users has the key user="v" (file training-0.parquet)`)
		_, _, err = run(t, func(s []joinertest.Staging) { s[2].Rule.Missing = rule.MissingError })
		require.ErrorContains(t, err, `no row of pairs has the key user="v", request=2 (file training-0.parquet)`)
	})
}

// spec: join-2, join-3
func TestSchema(t *testing.T) {
	mem := joinertest.Checked(t)
	required := []arrow.Field{{Name: "country", Type: arrow.BinaryTypes.String, Metadata: arrow.NewMetadata([]string{"a"}, []string{"b"})}, joinertest.Columns(t, "pins longs")[0]}
	staging := joinertest.Table{Name: "staging", Fields: append(joinertest.Columns(t, "req int"), required...), Rows: joinertest.Rows{{"7", "de", "[1,2]"}}}
	training := joinertest.Table{Name: "training", Fields: joinertest.Columns(t, "request long", "item string"), Rows: joinertest.Parse("7 a")}
	want := arrow.Field{Name: "history", Type: &arrow.DictionaryType{
		IndexType: arrow.PrimitiveTypes.Int32,
		ValueType: arrow.StructOf(
			arrow.Field{Name: "country", Type: arrow.BinaryTypes.String, Nullable: true},
			arrow.Field{Name: "pins", Type: arrow.ListOf(arrow.PrimitiveTypes.Int64), Nullable: true}),
	}}
	require.Equal(t, want, joiner.FieldOf("history", required, ""))

	built, err := joiner.Build(t.Context(), staging.Input(t, mem, []int{0}, []int{1, 2}), joiner.BuildSpec{Name: "built as another"}, joiner.Options{Memory: mem})
	require.NoError(t, err)
	require.Equal(t, joiner.FieldOf("built as another", required, ""), built.Field())
	require.EqualValues(t, 1, built.Rows())
	r, err := joiner.Join(t.Context(), training.Input(t, mem, nil, []int{1}), []joiner.Probe{{
		Rule: joiner.Rule{Name: "history"}, Key: []int{0}, Columns: required,
		BuildSide: func(context.Context) (joiner.Probeable, error) { return built, nil },
	}}, joiner.Options{Memory: mem})
	require.NoError(t, err)
	require.True(t, r.Schema().Equal(arrow.NewSchema([]arrow.Field{training.Fields[1], want}, nil)), "%s", r.Schema())
	got, _, err := joinertest.Drain(t, r)
	require.NoError(t, err)
	require.Equal(t, []string{"a de [1,2]"}, got)
}

// spec: join-8, join-10
func TestKeyTypes(t *testing.T) {
	cases := map[string]struct{ training, staging, fails string }{
		"equal":                {"string", "string", ""},
		"int and long":         {"int", "long", ""},
		"number and text":      {"long", "string", "training column k is int64 and staging column r is utf8, which are never equal; join on columns of one type"},
		"number and date":      {"int", "date", "training column k is int32 and staging column r is date32"},
		"with zone or without": {"timestamp", "local", "training column k is timestamp[us, tz=UTC] and staging column r is timestamp[us]"},
		"scales":               {"decimal", "cents", "training column k is decimal(9, 2) and staging column r is decimal(9, 3)"},
		"text and bytes":       {"string", "binary", "training column k is utf8 and staging column r is binary"},
		"lengths":              {"word", "uuid", "training column k is fixed_size_binary[4] and staging column r is fixed_size_binary[16]"},
		"float":                {"float", "float", "column k of type float32 cannot be a key; join on columns of integers"},
		"bool":                 {"bool", "bool", "column k of type bool cannot be a key"},
		"list":                 {"longs", "longs", "column k of type list<item: int64, nullable> cannot be a key"},
		"float in one table":   {"long", "float", "column r of type float32 cannot be a key"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			mem := joinertest.Checked(t)
			training := joinertest.Table{Fields: joinertest.Columns(t, "k "+c.training), Rows: joinertest.Rows{{joinertest.Null}}}
			staging := joinertest.Table{Fields: joinertest.Columns(t, "r "+c.staging)}
			opts := joiner.Options{Memory: mem}
			probe := staging.Probe(t, 1, joiner.Rule{Name: "history"}, joiner.BuildSpec{}, opts)
			r, err := joiner.Join(t.Context(), training.Input(t, mem, nil, []int{0}), []joiner.Probe{probe}, opts)
			joinertest.Suits(t, r, err, c.fails)
		})
	}
}

func TestTimesOfOneZone(t *testing.T) {
	for name, c := range map[string]struct {
		training, staging string
		utc               bool
		fails             string
	}{
		"with zone or without": {"timestamp", "local", false, "training column at is timestamp[us, tz=UTC] and staging column then is timestamp[us]"},
		"as UTC":               {"timestamp", "local", true, ""},
		"the other way":        {"local", "timestamp", true, ""},
		"number as UTC":        {"long", "local", true, "training column at is int64 and staging column then is timestamp[us]"},
	} {
		t.Run(name, func(t *testing.T) {
			mem := joinertest.Checked(t)
			training := joinertest.Table{Fields: joinertest.Columns(t, "k long", "at "+c.training), Rows: joinertest.Rows{{joinertest.Null, joinertest.Null}}}
			staging := joinertest.Table{Fields: joinertest.Columns(t, "r long", "then "+c.staging)}
			opts := joiner.Options{Memory: mem}
			rule := joiner.Rule{Name: "history", Time: &joiner.TimeRule{Column: 1, UTC: c.utc}}
			probe := staging.Probe(t, 1, rule, joiner.BuildSpec{Time: new(1)}, opts)
			r, err := joiner.Join(t.Context(), training.Input(t, mem, nil, []int{0}), []joiner.Probe{probe}, opts)
			joinertest.Suits(t, r, err, c.fails)
		})
	}
}

func TestKeysAreRendered(t *testing.T) {
	cases := map[string]struct{ dt, value, want string }{
		"number":      {"long", "-5", "k=-5"},
		"date":        {"date", "2026-10-01", "k=2026-10-01"},
		"decimal":     {"decimal", "1.5", "k=1.5"},
		"text":        {"string", `a"b`, `k="a\"b"`},
		"bytes":       {"binary", "q80=", "k=0xabcd"},
		"fixed bytes": {"word", "q80AAA==", "k=0xabcd0000"},
		"UUID":        {"uuid", "95w+CWd8S72keT80nLeF5w==", "k=f79c3e09-677c-4bbd-a479-3f349cb785e7"},
		"long text":   {"string", strings.Repeat("x", 100), `k="` + strings.Repeat("x", 80) + `"… (100 bytes)`},
		"null":        {"long", joinertest.Null, "k=null"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			fields := joinertest.Columns(t, "k "+c.dt)
			r := joinertest.Record(t, joinertest.Checked(t), arrow.NewSchema(fields, nil), joinertest.Rows{{c.value}})
			defer r.Release()
			require.Equal(t, c.want, joiner.Render(fields, r.Columns(), 0))
		})
	}
}
