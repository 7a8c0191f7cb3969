package decode_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/joiner/rule"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/dataset/datasettest"
	"github.com/penstock/penstock/loader/dataset/decode"
)

const everyRule = `
training:
  table: ml.impressions
  distinct: {by: [request_id, item_id], order_by: ["seen desc", {column: n}], scope: partition}
key: [request_id]
staging:
  - table: f.history
    columns: [{column: pins, name: p, last: 50}, {column: price, as: float32}, {column: tags, first: 1}]
    missing: {default: {price: -1, p: null, ok: "?", half: 0.5, one: 1.0, yes: true}}
    duplicates: all
    order_by: [updated_at DESC, {column: n, order: asc}, {column: m, order: desc}]
    align: {training: day, lag: 1w}
    min_match: 0.98
    matched_as: has_history
    strategy: merge
    max_amplification: 2
  - {table: f.overlay, join: overlay, nulls: keep, align: {training: day, staging: d, rule: latest_before}}
  - {table: f.latest, join: overlay, align: {training: hour, rule: latest_before, lag: 3}}
  - {table: f.semi, join: semi, align: {training: day}, strategy: "custom:mine"}
  - {table: f.anti, join: anti, align: {training: month, lag: 12mo}}
  - table: f.events
    point_in_time: {training: ts, tolerance: 36h, exact: false}
    duplicates: last
    order_by: n
  - {table: f.old, join: inner, missing: error, point_in_time: {training: ts, staging: at, tolerance: 90m, exact: true}}
`

func TestEveryRule(t *testing.T) {
	t.Parallel()
	text := strings.Replace(everyRule, "price: -1, p: null, ok: \"?\", half: 0.5, one: 1.0, yes: true", "price: -1, p: null, tags: \"?\"", 1)
	got, err := decode.Dataset("all", document(t, text))
	require.NoError(t, err)
	require.Equal(t, &dataset.Distinct{
		By: []string{"request_id", "item_id"}, Keep: dataset.KeepFirst, Scope: dataset.ScopePartition,
		OrderBy: []dataset.OrderBy{{Column: "seen", Descending: true}, {Column: "n"}},
	}, got.Training.Distinct)
	key := []dataset.KeyPair{{Training: "request_id", Staging: "request_id"}}
	plain := dataset.Staging{
		Key: key, Join: rule.Left, Missing: rule.MissingNull, Duplicates: rule.DuplicatesError,
		Strategy: rule.StrategyAuto, MaxAmplification: dataset.DefaultMaxAmplification,
	}
	with := func(name string, change func(*dataset.Staging)) dataset.Staging {
		s := plain
		s.Table, s.Name = "f."+name, name
		change(&s)
		return s
	}
	require.Equal(t, []dataset.Staging{
		with("history", func(s *dataset.Staging) {
			s.Columns = []dataset.Column{{Column: "pins", Name: "p", Last: 50}, {Column: "price", As: "float"}, {Column: "tags", First: 1}}
			s.Missing = rule.MissingDefault
			s.Defaults = []dataset.Default{{Column: "p"}, {Column: "price", Value: int64(-1)}, {Column: "tags", Value: "?"}}
			s.Duplicates = rule.DuplicatesAll
			s.OrderBy = []dataset.OrderBy{{Column: "updated_at", Descending: true}, {Column: "n"}, {Column: "m", Descending: true}}
			s.Align = &dataset.Align{Training: "day", Staging: "day", Rule: dataset.AlignLag, Lag: dataset.Lag{Time: 7 * 24 * time.Hour}}
			s.MinMatch, s.MatchedAs, s.Strategy, s.MaxAmplification = 0.98, "has_history", rule.StrategyMerge, 2
		}),
		with("overlay", func(s *dataset.Staging) {
			s.Join, s.Nulls = rule.Overlay, rule.NullsKeep
			s.Align = &dataset.Align{Training: "day", Staging: "d", Rule: dataset.AlignLatestBefore}
		}),
		with("latest", func(s *dataset.Staging) {
			s.Join, s.Nulls = rule.Overlay, rule.NullsReplace
			s.Align = &dataset.Align{Training: "hour", Staging: "hour", Rule: dataset.AlignLatestBefore, Lag: dataset.Lag{Count: 3}}
		}),
		with("semi", func(s *dataset.Staging) {
			s.Join, s.Strategy, s.Custom = rule.Semi, rule.StrategyCustom, "mine"
			s.Align = &dataset.Align{Training: "day", Staging: "day", Rule: dataset.AlignSame}
		}),
		with("anti", func(s *dataset.Staging) {
			s.Join = rule.Anti
			s.Align = &dataset.Align{Training: "month", Staging: "month", Rule: dataset.AlignLag, Lag: dataset.Lag{Months: 12}}
		}),
		with("events", func(s *dataset.Staging) {
			s.PointInTime = &dataset.PointInTime{Training: "ts", Staging: "ts", Tolerance: dataset.Lag{Time: 36 * time.Hour}}
			s.Duplicates, s.OrderBy = rule.DuplicatesLast, []dataset.OrderBy{{Column: "n"}}
		}),
		with("old", func(s *dataset.Staging) {
			s.Join, s.Missing = rule.Inner, rule.MissingError
			s.PointInTime = &dataset.PointInTime{Training: "ts", Staging: "at", Tolerance: dataset.Lag{Time: 90 * time.Minute}, Exact: true}
		}),
	}, got.Staging)
	same(t, `{"training":{"table":"ml.impressions","distinct":{"by":["request_id","item_id"],"order_by":["seen desc","n"],"scope":"partition"}},`+
		`"key":["request_id"],"staging":[`+
		`{"table":"f.history","columns":[{"column":"pins","name":"p","last":50},{"column":"price","as":"float"},{"column":"tags","first":1}],`+
		`"missing":{"default":{"p":null,"price":-1,"tags":"?"}},"duplicates":"all","order_by":["updated_at desc","n","m desc"],"min_match":0.98,`+
		`"matched_as":"has_history","align":{"training":"day","lag":"7d"},"strategy":"merge","max_amplification":2},`+
		`{"table":"f.overlay","join":"overlay","nulls":"keep","align":{"training":"day","staging":"d","rule":"latest_before"}},`+
		`{"table":"f.latest","join":"overlay","align":{"training":"hour","rule":"latest_before","lag":3}},`+
		`{"table":"f.semi","join":"semi","align":{"training":"day"},"strategy":"custom:mine"},`+
		`{"table":"f.anti","join":"anti","align":{"training":"month","lag":"1y"}},`+
		`{"table":"f.events","duplicates":"last","order_by":["n"],"point_in_time":{"training":"ts","tolerance":"36h","exact":false}},`+
		`{"table":"f.old","join":"inner","missing":"error","point_in_time":{"training":"ts","staging":"at","tolerance":"90m"}}]}`, got.Canonical())
}

// TestDefaultsKeepTheirTypes checks that defaults keep their types: 1.0 is not 1, and
// neither is text.
func TestDefaultsKeepTheirTypes(t *testing.T) {
	t.Parallel()
	got, err := decode.Dataset("d", document(t, strings.Replace(everyRule, "columns: [{column: pins, name: p, last: 50}, {column: price, as: float32}, {column: tags, first: 1}]", "", 1)))
	require.NoError(t, err)
	require.Equal(t, []dataset.Default{
		{Column: "half", Value: 0.5},
		{Column: "ok", Value: "?"},
		{Column: "one", Value: 1.0},
		{Column: "p"},
		{Column: "price", Value: int64(-1)},
		{Column: "yes", Value: true},
	}, got.Staging[0].Defaults)
	require.Contains(t, string(got.Canonical()), `{"default":{"half":0.5,"ok":"?","one":1.0,"p":null,"price":-1,"yes":true}}`)
}

// TestEachRuleChangesTheDigest checks that each rule changes the digest, unless it is at
// its default.
func TestEachRuleChangesTheDigest(t *testing.T) {
	t.Parallel()
	digest := func(rule string) string {
		d, err := decode.Dataset("d", document(t, `{training: {table: a.b}, key: [k], staging: [{table: c.d`+rule+`}]}`))
		require.NoError(t, err, rule)
		return d.Digest()
	}
	seen := map[string]string{digest(""): "none"}
	for _, rule := range []string{
		"join: inner", "join: semi", "join: anti", "join: overlay", "join: overlay, nulls: keep",
		"missing: error", "missing: {default: {a: 1}}", "missing: {default: {a: 1.0}}", `missing: {default: {a: "1"}}`,
		"duplicates: first", "duplicates: last", "duplicates: all", "duplicates: all, order_by: a", "duplicates: all, order_by: a desc",
		"min_match: 0", "min_match: 0.5", "matched_as: m", "align: {training: d}", "align: {training: d, staging: e}", "align: {training: d, lag: 1d}",
		"align: {training: d, lag: 1mo}", "align: {training: d, lag: 1}", "align: {training: d, rule: latest_before}",
		"align: {training: d, rule: latest_before, lag: 1d}", "point_in_time: {training: t, tolerance: 1d}",
		"point_in_time: {training: t, tolerance: 1d, exact: false}", "point_in_time: {training: t, staging: u, tolerance: 1d}",
		"strategy: index", "max_amplification: 8", "columns: [{column: a, first: 1}]", "columns: [{column: a, last: 1}]",
		"columns: [{column: a, as: int}]", "columns: [a]",
	} {
		got := digest(", " + rule)
		require.Empty(t, seen[got], rule)
		seen[got] = rule
	}
	for _, rule := range []string{
		"join: left, missing: null, duplicates: error, strategy: auto, max_amplification: 4, align: null, matched_as: null",
	} {
		require.Equal(t, digest(""), digest(", "+rule))
	}
	for rule, other := range map[string]string{
		"align: {training: d, rule: same, staging: d}":                         "align: {training: d}",
		"align: {training: d, rule: lag, lag: 24h}":                            "align: {training: d, lag: 1d}",
		"align: {training: d, lag: 2y}":                                        "align: {training: d, lag: 24mo}",
		"join: overlay, nulls: replace":                                        "join: overlay",
		"columns: [{column: a, as: float64}]":                                  "columns: [{column: a, as: double}]",
		"duplicates: last, order_by: [a asc]":                                  "duplicates: last, order_by: [{column: a}]",
		"point_in_time: {training: t, staging: t, tolerance: 1d, exact: true}": "point_in_time: {training: t, tolerance: 1440m}",
	} {
		require.Equal(t, digest(", "+other), digest(", "+rule))
	}
	none, err := decode.Dataset("d", document(t, `{training: {table: a.b}, key: [k], staging: [{table: c.d}]}`))
	require.NoError(t, err)
	require.Equal(t, "d4502c7fce052ce42fddf516cc10487d", none.Digest(), "a dataset without new rules has the digest that it always had")
	old, err := decode.Dataset("d", document(t, homefeed))
	require.NoError(t, err)
	require.Equal(t, "1c8caa0b82ff3ac6e86f3d7bb1765ddd", old.Digest())
	for _, distinct := range []string{"by: [a]", "by: [a, b]", "by: [a], keep: last", "by: [a], order_by: b", "by: [a], scope: partition"} {
		d, err := decode.Dataset("d", document(t, `{training: {table: a.b, distinct: {`+distinct+`}}, key: [k], staging: [{table: c.d}]}`))
		require.NoError(t, err)
		require.Empty(t, seen[d.Digest()], distinct)
		seen[d.Digest()] = distinct
	}
	table, err := decode.Dataset("d", document(t, `{training: {table: a.b, distinct: {by: [a], keep: first, scope: table}}, key: [k], staging: [{table: c.d}]}`))
	require.NoError(t, err)
	require.Equal(t, "by: [a]", seen[table.Digest()])
}

func TestLagsAndDurations(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]dataset.Lag{
		`"1d"`: {Time: 24 * time.Hour}, `"24h"`: {Time: 24 * time.Hour}, `"90 m"`: {Time: 90 * time.Minute}, `"30s"`: {Time: 30 * time.Second},
		`"1w"`: {Time: 168 * time.Hour}, `"5ms"`: {Time: 5 * time.Millisecond}, `"2mo"`: {Months: 2}, `"3y"`: {Months: 36},
		`3`: {Count: 3}, `9223372036854775807`: {Count: 1<<63 - 1}, `"106751d"`: {Time: 106751 * 24 * time.Hour}, `"10000y"`: {Months: 120_000},
	} {
		q, err := decode.Query([]byte(`{"dataset":{"training":{"table":"a.b"},"staging":[{"table":"c.d","key":["k"],"align":{"training":"day","lag":` + text + `}}]}}`))
		require.NoError(t, err, text)
		require.Equal(t, &dataset.Align{Training: "day", Staging: "day", Rule: dataset.AlignLag, Lag: want}, q.Inline.Staging[0].Align, text)
		back, err := decode.Query(q.Canonical())
		require.NoError(t, err)
		require.Equal(t, q, back)
	}
	for text, want := range map[string]string{
		`""`: `"" is not a duration`, `"d"`: "is not a duration", `"1.5d"`: "is not a duration", `"1D"`: "is not a duration", `"1 day"`: "is not a duration",
		`"-1d"`: "is not a duration", `"1d12h"`: "is not a duration", `"106752d"`: `"106752d" is too long`, `"10001y"`: "is too long",
		`"99999999999999999999s"`: "is too long", `"120001mo"`: "is too long", `-1`: "must be at least 0, not -1", `1.5`: "must be a duration",
		`true`: "must be a duration", `[1]`: "must be a duration", `0`: "must be greater than zero", `"0d"`: "must be greater than zero", `"0mo"`: "must be greater than zero",
	} {
		err := queryFault(`{"dataset":{"training":{"table":"a.b"},"staging":[{"table":"c.d","key":["k"],"align":{"training":"day","lag":` + text + `}}]}}`)
		require.ErrorContains(t, err, "dataset.staging[0].align.lag: ", text)
		require.ErrorContains(t, err, want, text)
	}
	for text, want := range map[string]dataset.Lag{
		`"1d"`: {Time: 24 * time.Hour}, `86400`: {Count: 86400}, `"1s"`: {Time: time.Second}, `0`: {}, `"1us"`: {Time: time.Microsecond},
	} {
		q, err := decode.Query([]byte(`{"dataset":{"training":{"table":"a.b"},"staging":[{"table":"c.d","key":["k"],"point_in_time":{"training":"ts","tolerance":` + text + `}}]}}`))
		require.NoError(t, err, text)
		require.Equal(t, &dataset.PointInTime{Training: "ts", Staging: "ts", Tolerance: want, Exact: true}, q.Inline.Staging[0].PointInTime, text)
		back, err := decode.Query(q.Canonical())
		require.NoError(t, err)
		require.Equal(t, q, back)
	}
	for lag, want := range map[dataset.Lag]string{
		{}: "", {Months: 12}: "1y", {Months: 13}: "13mo", {Time: 48 * time.Hour}: "2d", {Time: 36 * time.Hour}: "36h", {Count: 7}: "7",
	} {
		require.Equal(t, want, lag.String())
	}
}

func TestSamples(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]dataset.Sample{
		`{"hash":[0,0.0625]}`:                          {Hash: &dataset.HashRange{To: 0.0625}, By: dataset.SampleByRequest, Rate: 1},
		`{"hash":[0.0625,0],"by":"key"}`:               {Hash: &dataset.HashRange{From: 0.0625}, By: dataset.SampleByKey, Rate: 1},
		`{"rate":0.1,"where":"label = 0"}`:             {By: dataset.SampleByRequest, Rate: 0.1, Where: datasettest.Filter("label = 0")},
		`{"rate":1}`:                                   {By: dataset.SampleByRequest, Rate: 1},
		`{"hash":[0.5,1],"rate":1,"where":"a IN (1)"}`: {Hash: &dataset.HashRange{From: 0.5, To: 1}, By: dataset.SampleByRequest, Rate: 1, Where: datasettest.Filter("a IN (1)")},
		`{"hash":[1,0.25],"rate":0.5}`:                 {Hash: &dataset.HashRange{From: 1, To: 0.25}, By: dataset.SampleByRequest, Rate: 0.5},
	} {
		q, err := decode.Query([]byte(`{"dataset":"d","sample":` + text + `}`))
		require.NoError(t, err, text)
		require.Equal(t, &want, q.Sample, text)
		same(t, `{"dataset":"d","sample":`+text+`}`, q.Canonical())
		require.Equal(t, text, q.Sample.Canonical())
		require.Equal(t, q, q.Defaults())
	}
	for text, made := range map[string]*dataset.Sample{ // defaults need not be set
		`{"hash":[0,0.5]}`:             {Hash: &dataset.HashRange{To: 0.5}},
		`{"rate":0.5,"where":"a < 1"}`: {Rate: 0.5, Where: datasettest.Filter("a<1")},
	} {
		same(t, text, []byte(made.Canonical()))
	}
	require.Empty(t, (*dataset.Sample)(nil).Canonical())
	made := dataset.Query{Rows: dataset.Rows{Dataset: "d", Sample: &dataset.Sample{Rate: 0.5}}}
	require.Equal(t, dataset.SampleByRequest, made.Defaults().Sample.By)
	require.Empty(t, made.Sample.By, "the query itself is not changed")

	for text, want := range map[string]string{
		`1`:                                    "sample: must be an object, not a whole number",
		`{}`:                                   "sample: has no effect; set hash, rate or both",
		`{"hash":null,"where":"a = 1"}`:        "sample: has no effect",
		`{"hash":[0.25,0.25]}`:                 "sample.hash: the range from 0.25 to 0.25 is empty; leave hash out for all rows",
		`{"hash":[0]}`:                         "sample.hash: must be two numbers from 0 to 1",
		`{"hash":0.5}`:                         "sample.hash: must be two numbers from 0 to 1",
		`{"hash":[-0.1,0.5]}`:                  "sample.hash[0]: must be at least 0, not -0.1",
		`{"hash":[0,1.5]}`:                     "sample.hash[1]: must be at most 1, not 1.5",
		`{"hash":[0,"1"]}`:                     "sample.hash[1]: must be a number, not text",
		`{"hash":[0,1e999]}`:                   "sample.hash[1]: 1e999 is not a finite 64-bit number",
		`{"rate":0}`:                           "sample.rate: must be above 0",
		`{"rate":1.1}`:                         "sample.rate: must be at most 1, not 1.1",
		`{"rate":0.5,"by":"key"}`:              "sample.by: has no effect without hash",
		`{"hash":[0,0.5],"where":"a = 1"}`:     "sample.where: has no effect without rate",
		`{"hash":[0,0.5],"by":"bucket"}`:       `sample.by: unknown value "bucket"; known: request, key`,
		`{"rate":0.5,"where":"label ="}`:       "sample.where: at position 8",
		`{"rate":0.5,"rates":"label = 1"}`:     `sample.rates: unknown field (did you mean "rate"?)`,
		`{"hash":[0,0.5],"rate":0.5,"seed":1}`: "sample.seed: unknown field",
	} {
		err := queryFault(`{"dataset":"d","sample":` + text + `}`)
		require.Equal(t, fault.Invalid, fault.KindOf(err), text)
		require.ErrorContains(t, err, want, text)
	}
}

// TestRulesThatFit checks that rules that are rejected in some combinations are accepted
// in others.
func TestRulesThatFit(t *testing.T) {
	t.Parallel()
	for _, rules := range []string{
		"join: semi, min_match: 0.5, filter: 'a = 1', strategy: broadcast", "join: anti, point_in_time: {training: t, tolerance: 1d}",
		"join: inner, missing: error, duplicates: all, order_by: [a]", "join: inner, columns: [a], prefix: p",
		"join: overlay, duplicates: last, missing: error, matched_as: m", "join: overlay, missing: {default: {a: 1}}",
		"strategy: zip, point_in_time: {training: t, tolerance: 1d}", "align: {training: d}, point_in_time: {training: t, tolerance: 0}",
		"columns: [a], prefix: p_, missing: {default: {p_a: 1}}", "columns: [{column: a, name: b}], prefix: p_, missing: {default: {b: 1}}",
		"columns: [a], prefix: p_, matched_as: a", "missing: {default: {a: null}}", "columns: [{column: a, first: 2147483647}]",
		"duplicates: error, min_match: 1, max_amplification: 1",
	} {
		require.NoError(t, yamlFault(t, fmt.Sprintf(`{training: {table: a.b}, key: [k], staging: [{table: c.d, %s}]}`, rules)), rules)
	}
	for rules, want := range map[string]string{
		"columns: [a], prefix: p_, missing: {default: {a: 1}}":     `staging[0].missing.default.a: is not an output column; output names include the prefix (line 1)`,
		"columns: [], missing: {default: {a: 1}}":                  "staging[0].missing.default.a: is not an output column",
		"columns: [a], prefix: p_, matched_as: p_a":                `staging[0].matched_as: columns[0] already has the name "p_a"`,
		"columns: [{column: a, first: 2147483648}]":                "staging[0].columns[0].first: must be at most 2147483647",
		"columns: [b, {column: a, as: category}]":                  "staging[0].columns[1].as: category belongs to a query, not to a dataset; write it in the query's columns",
		"columns: [{column: a, last: -1}]":                         "staging[0].columns[0].last: must be at least 1, not -1",
		"point_in_time: {training: t, tolerance: 0, exact: false}": "point_in_time.tolerance: must be greater than zero if exact is false",
		"duplicates: first, order_by: [1]":                         `staging[0].order_by[0]: must be a column such as "updated_at" or "updated_at desc", or {column, order}, not a whole number`,
		"duplicates: first, order_by: ['']":                        "staging[0].order_by[0]: must not be empty",
		"duplicates: first, order_by: [{order: asc}]":              "staging[0].order_by[0].column: missing",
		"strategy: 'custom:'":                                      "staging[0].strategy: has no strategy name; write custom:NAME",
		"strategy: 1":                                              "staging[0].strategy: must be text",
		"min_match: half":                                          "staging[0].min_match: must be a number, not text",
		"max_amplification: .inf":                                  "staging[0].max_amplification: +Inf is not a finite 64-bit number",
		"missing: [error]":                                         "staging[0].missing: must be text, not a list",
		"missing: {default: 1}":                                    "staging[0].missing.default: must be an object that maps columns to values, not a whole number",
		"missing: {default: {'': 1}}":                              "a column's name has 1 to 1024 bytes",
	} {
		err := yamlFault(t, fmt.Sprintf(`{training: {table: a.b}, key: [k], staging: [{table: c.d, %s}]}`, rules))
		require.ErrorContains(t, err, want, rules)
	}
}

// TestFieldsOfJoinsWithoutColumns checks that fields about columns are rejected for kinds of join
// that add no columns, and accepted for others.
func TestFieldsOfJoinsWithoutColumns(t *testing.T) {
	t.Parallel()
	for field, value := range map[string]string{
		"columns": "[a]", "prefix": "x_", "matched_as": "m", "missing": "error", "duplicates": "first", "order_by": "n",
	} {
		for _, kind := range rule.Kinds() {
			more := map[bool]string{true: ", duplicates: first"}[field == "order_by" && kind.Adds()]
			text := fmt.Sprintf("{training: {table: n.t}, key: [id], staging: [{table: n.f, join: %s, %s: %s%s}]}", kind, field, value, more)
			_, err := decode.Dataset("d", document(t, text))
			if kind.Adds() && (field != "matched_as" || kind.Fills()) {
				require.NoError(t, err, text)
				continue
			}
			require.Equal(t, fault.Invalid, fault.KindOf(err), text)
			require.Equal(t, "staging[0]."+field, fault.As(err).Faults[0].Field, text)
		}
	}
}
