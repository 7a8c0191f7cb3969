package resolve_test

import (
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/joiner/rule"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/dataset/datasettest"
	"github.com/penstock/penstock/loader/resolve"
)

func field(id int, name string, dt arrow.DataType, required bool) catalog.Field {
	return catalog.Field{ID: id, Name: name, Type: dt, Required: required}
}

func spec(source, n int) catalog.Spec {
	return catalog.Spec{{ID: 1000, Source: source, Name: "b", Transform: catalog.Transform{Kind: catalog.Bucket, N: n}}}
}

func table(name string, fields []catalog.Field, specs ...catalog.Spec) *catalog.Table {
	t := &catalog.Table{Name: name, Fields: fields, Specs: map[int]catalog.Spec{}}
	for i, s := range specs {
		t.Specs[i] = s
	}
	return t
}

func trainingTable(n int) *catalog.Table {
	return table("ml.train", []catalog.Field{
		field(1, "request_id", arrow.PrimitiveTypes.Int64, true),
		field(2, "item", arrow.PrimitiveTypes.Int32, true),
		field(3, "score", arrow.PrimitiveTypes.Float32, false),
	}, spec(1, n))
}

func stagingTable(specs ...catalog.Spec) *catalog.Table {
	return table("features.user", []catalog.Field{
		field(4, "late", arrow.BinaryTypes.String, true),
		field(1, "req", arrow.PrimitiveTypes.Int32, false),
		field(2, "age", arrow.PrimitiveTypes.Int64, true),
	}, specs...)
}

func entry() dataset.Staging {
	return dataset.Staging{
		Table: "features.user", Name: "user", Key: []dataset.KeyPair{{Training: "request_id", Staging: "req"}},
		Join: rule.Left, Missing: rule.MissingNull, Duplicates: rule.DuplicatesError,
	}
}

func bind(t *testing.T, entries ...dataset.Staging) (*resolve.Relation, error) {
	t.Helper()
	d := dataset.Dataset{Name: "d", Key: []string{"request_id"}, Training: dataset.Training{Table: "ml.train"}, Staging: entries}
	staging := make([]*catalog.Table, len(entries))
	for i := range staging {
		staging[i] = stagingTable(spec(1, 4))
	}
	return resolve.Bind(d, trainingTable(4), staging)
}

// spec: resolve-10, resolve-13
func TestOutputs(t *testing.T) {
	t.Parallel()
	r, err := bind(t, entry())
	require.NoError(t, err)
	require.Equal(t, arrow.NewSchema([]arrow.Field{
		{Name: "request_id", Type: arrow.PrimitiveTypes.Int64},
		{Name: "item", Type: arrow.PrimitiveTypes.Int32},
		{Name: "score", Type: arrow.PrimitiveTypes.Float32, Nullable: true},
		{Name: "age", Type: arrow.PrimitiveTypes.Int64, Nullable: true},
		{Name: "late", Type: arrow.BinaryTypes.String, Nullable: true},
	}, nil).String(), resolve.Schema(r.Outputs).String(), "keys left out, staging columns by field id")
	inner := entry()
	inner.Join, inner.Columns, inner.Prefix = rule.Inner, []dataset.Column{{Column: "late"}, {Column: "age", Name: "years"}}, "u_"
	r, err = bind(t, inner)
	require.NoError(t, err)
	require.Equal(t, "u_late", r.Outputs[3].Name)
	require.Equal(t, "years", r.Outputs[4].Name)
	require.False(t, r.Outputs[4].Null)
}

// spec: resolve-11
func TestSelect(t *testing.T) {
	t.Parallel()
	r, err := bind(t, entry())
	require.NoError(t, err)
	outputs, err := r.Select([]dataset.Column{{Column: "late"}, {Column: "score", Name: "s"}, {Column: "age"}, {Column: "item"}})
	require.NoError(t, err)
	var names []string
	for _, o := range outputs {
		names = append(names, o.Name)
	}
	require.Equal(t, []string{"s", "item", "late", "age"}, names)
	_, err = r.Select([]dataset.Column{{Column: "scores"}, {Column: "item"}, {Column: "age", Name: "item"}})
	require.Equal(t, []fault.Field{
		{Field: "columns[0]", Message: `the dataset has no column "scores"`, Nearest: "score"},
		{Field: "columns[2]", Message: `two columns are named "item"; rename one with {column: …, name: …}`},
	}, fault.As(err).Faults)
	_, err = r.Select([]dataset.Column{{Column: `"a name"`}, {Column: "a name, another name"}})
	require.ErrorContains(t, err, `the dataset has no column "\"a name\""; only expressions and filters quote names`)
	require.ErrorContains(t, err, `the dataset has no column "a name, another name"; separate the names of a list with commas`)
}

// spec: resolve-9, resolve-12, resolve-14
func TestFaultsAreReportedTogether(t *testing.T) {
	t.Parallel()
	bad := entry()
	bad.Key = []dataset.KeyPair{{Training: "request", Staging: "req"}, {Training: "item", Staging: "late"}, {Training: "score", Staging: "age"}}
	bad.Filter, bad.Columns = datasettest.Filter("agee > 1"), []dataset.Column{{Column: "nope"}}
	twin := entry()
	twin.Name = "twin"
	_, err := bind(t, bad, entry(), twin)
	require.Equal(t, fault.Invalid, fault.KindOf(err))
	var got []string
	for _, f := range fault.As(err).Faults {
		got = append(got, f.Field+" "+f.Nearest)
	}
	require.Equal(t, []string{
		"staging[0].key request_id", "staging[0].key ", "staging[0].key ", "staging[0].filter age", "staging[0].columns[0] ",
		"staging[2] ", "staging[2] ",
	}, got)
	require.ErrorContains(t, err, "ml.train.item is int32 and features.user.late is utf8: keys of these types cannot be equal, and are not cast, since a value of another type is in another bucket; "+
		"rewrite features.user with late as int32")
	require.ErrorContains(t, err, `set prefix: "twin_"`)
}

// TestAKeyOfAnotherNameIsProposed if the staging table has a likely one: it is bucketed by it,
// or has a column of a similar name, or only one of the type.
func TestAKeyOfAnotherNameIsProposed(t *testing.T) {
	t.Parallel()
	text := func(id int, name string) catalog.Field { return field(id, name, arrow.BinaryTypes.String, false) }
	number := func(id int, name string) catalog.Field { return field(id, name, arrow.PrimitiveTypes.Int64, false) }
	for _, c := range []struct {
		want   string
		bucket int
		fields []catalog.Field
	}{
		{`write key: {request_id: req_id} if that is the same key`, 2, []catalog.Field{number(1, "version"), number(2, "req_id"), text(3, "country")}},
		{`write key: {request_id: requestid} if that is the same key`, 3, []catalog.Field{number(1, "version"), number(2, "requestid"), text(3, "country")}},
		{`write key: {request_id: r} if that is the same key`, 3, []catalog.Field{number(1, "r"), text(3, "country")}},
		{`has no column "request_id"`, 3, []catalog.Field{number(1, "a"), number(2, "b"), text(3, "country")}},
		{`has no column "request_id"`, 3, []catalog.Field{text(3, "request_key")}},
	} {
		staging := table("features.user", c.fields, spec(c.bucket, 4))
		_, err := resolve.Bind(dataset.Dataset{
			Name: "d", Training: dataset.Training{Table: "ml.train"},
			Staging: []dataset.Staging{{Table: "features.user", Key: []dataset.KeyPair{{Training: "request_id", Staging: "request_id"}}}},
		}.Defaults(), trainingTable(4), []*catalog.Table{staging})
		require.ErrorContains(t, err, c.want)
		require.Equal(t, "staging[0].key", fault.As(err).Faults[0].Field)
		if fault.As(err).Faults[0].Nearest == "" {
			require.NotContains(t, err.Error(), "write key")
		}
	}
}

// TestKeysOfUnlikeTypes: every proposal is possible. A column of the training key's type with
// another name is not proposed.
//
// spec: resolve-94
func TestKeysOfUnlikeTypes(t *testing.T) {
	t.Parallel()
	text := func(id int, name string) catalog.Field { return field(id, name, arrow.BinaryTypes.String, false) }
	number := func(id int, name string) catalog.Field { return field(id, name, arrow.PrimitiveTypes.Int64, false) }
	const unlike = "ml.train.request_id is int64 and features.user.id is utf8: keys of these types cannot be equal, and are not cast, since a value of another type is in another bucket; "
	for _, c := range []struct {
		want   string
		near   string
		fields []catalog.Field
	}{
		{unlike + "rewrite features.user with id as int64, bucketed by it again", "", []catalog.Field{text(1, "id")}},
		{unlike + "rewrite features.user with id as int64, bucketed by it again", "", []catalog.Field{text(1, "id"), number(2, "clicks")}},
		{
			unlike + "if request_id is the same key, write key: {request_id: request_id}; else rewrite features.user with id as int64, bucketed by it again",
			"request_id",
			[]catalog.Field{text(1, "id"), number(2, "request_id"), number(3, "request_ids")},
		},
		{
			unlike + "if request_key is the same key, write key: {request_id: request_key}; else rewrite features.user with id as int64, bucketed by it again",
			"request_key",
			[]catalog.Field{text(1, "id"), number(2, "request_key")},
		},
	} {
		_, err := resolve.Bind(dataset.Dataset{
			Name: "d", Training: dataset.Training{Table: "ml.train"},
			Staging: []dataset.Staging{{Table: "features.user", Key: []dataset.KeyPair{{Training: "request_id", Staging: "id"}}}},
		}.Defaults(), trainingTable(4), []*catalog.Table{table("features.user", c.fields, spec(1, 4))})
		require.Equal(t, fault.Invalid, fault.KindOf(err))
		require.ErrorContains(t, err, c.want)
		require.Equal(t, c.near, fault.As(err).Faults[0].Nearest)
	}
}

// TestKeysThatAnEntryNamesAreOutput like its other columns; a name that is taken is refused
// like any other.
//
// spec: resolve-10
func TestKeysThatAnEntryNamesAreOutput(t *testing.T) {
	t.Parallel()
	e := entry()
	e.Columns = []dataset.Column{{Column: "age"}, {Column: "req"}}
	r, err := bind(t, e)
	require.NoError(t, err)
	require.Equal(t, "req", r.Outputs[4].Name)
	require.True(t, r.Outputs[4].Null, "null without a match")
	e.Columns[1].Name = "request_id"
	_, err = bind(t, e)
	require.ErrorContains(t, err, `column "request_id" of user has the name of a column of the training table ml.train; set prefix: "user_"`)
	e.Join = rule.Overlay
	_, err = bind(t, e)
	require.ErrorContains(t, err, `column "request_id" of ml.train is part of the key; an overlay cannot replace it`)
}

// TestDensePacksNumbers and refuses other columns, of any table.
//
// spec: wire-25
func TestDensePacksNumbers(t *testing.T) {
	t.Parallel()
	r, err := bind(t, entry())
	require.NoError(t, err)
	pack := func(names ...string) ([]resolve.Output, error) {
		var columns []dataset.Column
		for _, name := range names {
			columns = append(columns, dataset.Column{Column: name})
		}
		return r.Choose(dataset.Selection{Columns: []dataset.Column{{Column: "item"}}, Dense: []dataset.Dense{{Name: "x", Columns: columns}}})
	}
	outputs, err := pack("score", "age", "request_id")
	require.NoError(t, err)
	require.Equal(t, "fixed_size_list<element: float32>[3]", outputs[len(outputs)-1].Type().String())
	_, err = pack("score", "late")
	require.Equal(t, []fault.Field{{
		Field: "dense.x[1]", Message: `column "late" is utf8: dense packs integers, floats, decimals and booleans; omit it, or name it in columns`,
	}}, fault.As(err).Faults)
}
