package datasettest

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/joiner/rule"
	"github.com/penstock/penstock/loader/dataset"
)

// notInText returns the fields that are not in the text of a query, with reasons.
func notInText() map[string]string {
	return map[string]string{
		"Requests":                    "batch_requests decides it",
		"Inline.Fitted":               "only datasets of the config file have fitted lists",
		"Inline.Name":                 "a dataset in a query has no name",
		"Dense.Columns.Name":          "packed columns have no names of their own",
		"Inline.Staging.Columns.Expr": "entries have no computed columns",
		"With.Columns.Expr":           "entries have no computed columns",
		"Inline.Staging.PointInTime.Tolerance.Months": "a month has no length",
		"With.PointInTime.Tolerance.Months":           "a month has no length",
	}
}

// minimal returns minimal valid values by type.
func minimal() map[reflect.Type]any {
	out := map[reflect.Type]any{}
	for _, one := range []any{
		dataset.Dataset{Key: []string{"k"}, Training: dataset.Training{Table: "ml.t"}},
		dataset.Staging{Table: "features.s"},
		dataset.Column{Column: "c"},
		dataset.Computed{Column: "c", Expr: "a"},
		dataset.Dense{Name: "d", Columns: []dataset.Column{{Column: "c"}}},
		dataset.KeyPair{Training: "k", Staging: "l"},
		dataset.Default{Column: "c", Value: int64(1)},
		dataset.OrderBy{Column: "o"},
		dataset.Distinct{By: []string{"b"}},
		dataset.Align{Training: "d"},
		dataset.PointInTime{Training: "at", Tolerance: dataset.Lag{Time: time.Hour}, Exact: true},
		dataset.Sample{Rate: 0.5},
		dataset.HashRange{From: 0.25, To: 0.5},
		dataset.TablePin{UUID: "u", Snapshot: 1},
		dataset.Limits{Columns: []dataset.ColumnLimits{{Column: "c", Bounds: []dataset.Limit{{Measure: "nulls", Value: 0.5}}}}},
		dataset.Limit{Measure: "nulls", Value: 0.5},
		dataset.Pin{Training: dataset.TablePin{UUID: "u", Snapshot: 1}, Staging: map[string]dataset.TablePin{}},
	} {
		out[reflect.TypeOf(one)] = one
	}
	return out
}

// special returns values for fields that do not accept every value of their type.
func special() map[string][]any {
	out := map[string][]any{
		"Columns.As": {"float", dataset.Category}, "Dense.Columns.As": {"int"}, "Inline.Staging.Columns.As": {"long"},
		"Columns.Expr": {"a + b"}, "Dense.Columns.Expr": {"a + b"}, "Inline.Computed.Expr": {"a + b"},
		"Inline.Training.Table": {"lake.ml.t2"}, "Inline.Staging.Table": {"features.s2"},
		"Inline.Staging.Align.Rule": {dataset.AlignLatestBefore}, "Inline.Staging.MinMatch": {0.75}, "Sample.Rate": {0.75}, "Sample.Hash.From": {0.125}, "Sample.Hash.To": {0.75},
		"With.Columns.As": {"long"}, "With.Table": {"features.s2"}, "With.Align.Rule": {dataset.AlignLatestBefore}, "With.MinMatch": {0.75},
		"ShuffleParts": {int64(5)}, "Algorithm": {2}, "Shard.Index": {1}, "Shard.Of": {3}, "Every.Step": {1}, "Every.Of": {3},
	}
	for _, table := range []string{"Inline.Training", "Inline.Staging", "With"} {
		for _, list := range []string{"Bounds", "Changes"} {
			path := table + ".Limits.Columns." + list
			out[path+".Measure"], out[path+".Value"] = []any{"zeros"}, []any{0.75}
		}
	}
	return out
}

// beside sets the other fields that a field of a query requires.
func beside(t *testing.T, path string, q *dataset.Query) {
	t.Helper()
	q.Dataset = "d"
	if rest, ok := strings.CutPrefix(path, "Inline"); ok {
		q.Dataset = ""
		if of, ok := strings.CutPrefix(rest, ".Staging."); ok {
			besideStaging(of, &q.Inline.Staging[0])
		}
		return
	}
	if of, ok := strings.CutPrefix(path, "With."); ok {
		besideStaging(of, &q.With[0])
		return
	}
	switch path {
	case "Dataset":
		q.Dataset = ""
	case "Seed", "Shuffle", "ShuffleWindow", "ShuffleParts":
		q.Order = dataset.Shuffled
	case "Shard.Index":
		q.Shard.Of = 2
	case "Every.Step":
		q.Every.Of = 2
	case "Wire":
		q.BatchRequests = 4
	case "Sample.By":
		q.Sample.Hash = &dataset.HashRange{To: 0.5}
	case "Cursor":
		q.BatchRequests = 4
	}
}

// besideStaging sets the other fields that a field of a staging entry requires.
func besideStaging(path string, s *dataset.Staging) {
	switch {
	case path == "Nulls":
		s.Join = rule.Overlay
	case strings.HasPrefix(path, "Defaults."):
		s.Missing = rule.MissingDefault
	case strings.HasPrefix(path, "OrderBy."):
		s.Duplicates = rule.DuplicatesFirst
	case path == "Custom":
		s.Strategy = rule.StrategyCustom
	case path == "Align.Rule":
		s.Align.Lag.Count = 2
	case strings.HasPrefix(path, "Align.Lag."):
		s.Align.Rule = dataset.AlignLag
	case path == "PointInTime.Tolerance.Count":
		s.PointInTime.Tolerance.Time = 0
	}
}

// access calls use with a value inside a query. It creates the value if necessary, and
// stores it after the call.
type access func(query reflect.Value, use func(value reflect.Value))

// each walks the fields of queries.
type each struct {
	t     *testing.T
	try   func(t *testing.T, path string, q dataset.Query)
	words map[reflect.Type][]any
	fill  filler
	seen  map[string]bool
}

// EachField calls try for each field of a query, at any depth, with a valid query that
// sets the field to a non-default value and few other fields. The test fails if a field
// cannot be set.
func EachField(t *testing.T, try func(t *testing.T, path string, q dataset.Query)) {
	t.Helper()
	e := each{t: t, try: try, words: words(), seen: map[string]bool{}}
	e.words[reflect.TypeFor[dataset.Cursors]()] = []any{dataset.Cursors{Cursor(t)}}
	e.fill.words = e.words
	e.walk(reflect.TypeFor[dataset.Query](), "", func(query reflect.Value, use func(reflect.Value)) { use(query) })
	for path := range notInText() {
		require.True(t, e.seen[path], "%s is not a field", path)
	}
	for path := range special() {
		require.True(t, e.seen[path], "%s is not a field", path)
	}
	require.Greater(t, len(e.seen), 90)
}

func (e *each) walk(of reflect.Type, path string, at access) {
	e.t.Helper()
	e.seen[path] = true
	values, given := special()[path]
	if !given {
		values = e.words[of]
	}
	switch kind := of.Kind(); {
	case notInText()[path] != "":
	case values != nil:
		for _, value := range values {
			e.set(path, at, func(part reflect.Value) error { part.Set(reflect.ValueOf(value)); return nil })
		}
	case kind == reflect.Struct:
		for i := range of.NumField() {
			field := of.Field(i)
			require.True(e.t, field.IsExported(), "%s.%s cannot be set: give its type a value in words", path, field.Name)
			inner := path // an embedded struct is not part of the path
			if !field.Anonymous {
				inner = strings.TrimPrefix(path+"."+field.Name, ".")
			}
			e.walk(field.Type, inner, func(query reflect.Value, use func(reflect.Value)) {
				at(query, func(parent reflect.Value) {
					if parent.Field(i).IsZero() {
						begin(parent.Field(i))
					}
					use(parent.Field(i))
				})
			})
		}
	case kind == reflect.Pointer:
		e.walk(of.Elem(), path, func(query reflect.Value, use func(reflect.Value)) {
			at(query, func(pointer reflect.Value) {
				if pointer.IsNil() {
					pointer.Set(reflect.New(of.Elem()))
					begin(pointer.Elem())
				}
				use(pointer.Elem())
			})
		})
	case kind == reflect.Slice:
		e.walk(of.Elem(), path, func(query reflect.Value, use func(reflect.Value)) {
			at(query, func(list reflect.Value) {
				if list.Len() == 0 {
					list.Set(reflect.MakeSlice(of, 1, 1))
					begin(list.Index(0))
				}
				use(list.Index(0))
			})
		})
	case kind == reflect.Map:
		e.walk(of.Elem(), path, func(query reflect.Value, use func(reflect.Value)) {
			at(query, func(entries reflect.Value) {
				if entries.IsNil() {
					entries.Set(reflect.MakeMap(of))
				}
				key, value := reflect.ValueOf("m"), reflect.New(of.Elem()).Elem()
				if before := entries.MapIndex(key); before.IsValid() {
					value.Set(before)
				} else {
					begin(value)
				}
				use(value)
				entries.SetMapIndex(key, value)
			})
		})
	default:
		e.set(path, at, func(part reflect.Value) error { return e.fill.scalar(part, path) })
	}
}

// begin sets a value to the minimal valid value of its type.
func begin(v reflect.Value) {
	if value, ok := minimal()[v.Type()]; ok {
		v.Set(reflect.ValueOf(value))
	}
}

// set calls try with a query that has one field set. The text of the query must differ
// from that without the field.
func (e *each) set(path string, at access, set func(part reflect.Value) error) {
	e.t.Helper()
	without, with := e.query(path, at), e.query(path, at)
	what := path
	at(reflect.ValueOf(&with).Elem(), func(part reflect.Value) {
		require.NoError(e.t, set(part))
		what = fmt.Sprintf("%s: %v", path, part)
	})
	require.NotEqual(e.t, string(without.Canonical()), string(with.Canonical()), "%s is not in the text of a query", what)
	e.try(e.t, what, with)
}

// query returns a valid query in which a field may be set.
func (e *each) query(path string, at access) dataset.Query {
	e.t.Helper()
	var q dataset.Query
	at(reflect.ValueOf(&q).Elem(), func(reflect.Value) {})
	beside(e.t, path, &q)
	return q
}
