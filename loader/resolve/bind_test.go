package resolve_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/joiner/rule"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/resolve"
)

// wideTables returns a training and a staging table with columns of every kind.
func wideTables() (training, staging *catalog.Table) {
	types := []struct {
		name string
		dt   arrow.DataType
	}{
		{"flag", arrow.FixedWidthTypes.Boolean},
		{"small", arrow.PrimitiveTypes.Int32},
		{"big", arrow.PrimitiveTypes.Int64},
		{"real", arrow.PrimitiveTypes.Float32},
		{"double", arrow.PrimitiveTypes.Float64},
		{"price", &arrow.Decimal128Type{Precision: 9, Scale: 2}},
		{"word", arrow.BinaryTypes.String},
		{"blob", arrow.BinaryTypes.Binary},
		{"uuid", &arrow.FixedSizeBinaryType{ByteWidth: 16}},
		{"on", arrow.FixedWidthTypes.Date32},
		{"clock", arrow.FixedWidthTypes.Time64us},
		{"at", &arrow.TimestampType{Unit: arrow.Microsecond}},
		{"zoned", &arrow.TimestampType{Unit: arrow.Microsecond, TimeZone: "UTC"}},
		{"fine", &arrow.TimestampType{Unit: arrow.Nanosecond}},
		{"list", arrow.ListOf(arrow.PrimitiveTypes.Float64)},
	}
	training = table("ml.t", []catalog.Field{field(1, "id", arrow.PrimitiveTypes.Int64, true), field(2, "day", arrow.PrimitiveTypes.Int64, false)}, catalog.Spec{
		{ID: 1000, Source: 1, Name: "b", Transform: catalog.Transform{Kind: catalog.Bucket, N: 4}},
		{ID: 1001, Source: 2, Name: "day", Transform: catalog.Transform{Kind: catalog.Identity}},
	})
	staging = table("ml.s", []catalog.Field{field(1, "key", arrow.PrimitiveTypes.Int64, true)}, spec(1, 4))
	for i, c := range types {
		training.Fields = append(training.Fields, field(10+i, c.name, c.dt, c.name == "small"))
		staging.Fields = append(staging.Fields, field(30+i, c.name, c.dt, false))
	}
	return training, staging
}

func bindWide(training dataset.Training, entries ...dataset.Staging) (*resolve.Relation, error) {
	t, s := wideTables()
	training.Table = t.Name
	tables := make([]*catalog.Table, len(entries))
	for i := range entries {
		tables[i] = s
		entries[i].Key = []dataset.KeyPair{{Training: "id", Staging: "key"}}
	}
	return resolve.Bind(dataset.Dataset{Name: "d", Training: training, Key: []string{"id"}, Staging: entries}.Defaults(), t, tables)
}

func output(t *testing.T, r *resolve.Relation, name string) resolve.Output {
	t.Helper()
	for _, o := range r.Outputs {
		if o.Name == name {
			return o
		}
	}
	require.Failf(t, "no output", "%s", name)
	return resolve.Output{}
}

// spec: resolve-33
func TestDefaultsAreTyped(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		column string
		value  any
		want   string // the default's text, or a part of the fault
		fault  bool
	}{
		{"flag", true, "true", false},
		{"flag", int64(1), "a boolean is expected", true},
		{"small", int64(-7), "-7", false},
		{"small", int64(1) << 40, "32 bits", true},
		{"small", 1.5, "whole number", true},
		{"big", int64(1) << 40, "1099511627776", false},
		{"real", int64(3), "3", false},
		{"real", 1e300, "float", true},
		{"double", 0.5, "0.5", false},
		{"double", int64(1)<<53 + 1, "not exact", true},
		{"price", "12.5", "12.5", false},
		{"price", int64(3), "3", false},
		{"price", "1.234", "2 digits", true},
		{"price", 0.1, "number", true},
		{"word", "??", "??", false},
		{"word", int64(1), "string", true},
		{"blob", "00ff", "AP8=", false},
		{"blob", "xyz", "hexadecimal", true},
		{"uuid", "f79c3e09-677c-4bbd-a479-3f349cb785e7", "95w+CWd8S72keT80nLeF5w==", false},
		{"uuid", "00", "1 bytes, not 16", true},
		{"on", "2026-10-01", "2026-10-01", false},
		{"on", "yesterday", "2026-10-01", true},
		{"clock", "12:30:00", "12:30:00.000000", false},
		{"at", "2026-10-01T12:00:00", "2026-10-01T12:00:00", false},
		{"at", "2026-10-01T12:00:00Z", "leave the offset out", true},
		{"zoned", "2026-10-01T12:00:00+02:00", "2026-10-01T10:00:00Z", false},
		{"zoned", "2026-10-01T12:00:00", "write an offset", true},
		{"list", int64(1), "the only default of nested columns", true},
	} {
		e := dataset.Staging{Table: "ml.s", Columns: []dataset.Column{{Column: c.column, Name: "x"}}, Missing: rule.MissingDefault, Defaults: []dataset.Default{{Column: "x", Value: c.value}}}
		r, err := bindWide(dataset.Training{}, e)
		if c.fault {
			require.ErrorContains(t, err, c.want, "%s %v", c.column, c.value)
			require.Equal(t, "staging[0].missing.default.x", fault.As(err).Faults[0].Field)
			continue
		}
		require.NoError(t, err, "%s %v", c.column, c.value)
		o := output(t, r, "x")
		require.Equal(t, 1, o.Default.Len())
		require.True(t, arrow.TypeEqual(o.Type(), o.Default.DataType()))
		require.Equal(t, c.want, o.Default.ValueStr(0), "%s", c.column)
	}
	cast := dataset.Staging{Table: "ml.s", Columns: []dataset.Column{{Column: "big", Name: "x", As: "double"}}, Missing: rule.MissingDefault, Defaults: []dataset.Default{{Column: "x", Value: -1.5}}}
	r, err := bindWide(dataset.Training{}, cast)
	require.NoError(t, err)
	require.Equal(t, "-1.5", output(t, r, "x").Default.ValueStr(0), "a default is of the type that the column has in the stream")
	selected, err := r.Select([]dataset.Column{{Column: "x", As: "float"}})
	require.NoError(t, err)
	require.Equal(t, arrow.PrimitiveTypes.Float32, selected[0].Default.DataType())
	_, err = r.Select([]dataset.Column{{Column: "x", As: "int"}})
	require.ErrorContains(t, err, "the default -1.5 is not a value of column")
	e := dataset.Staging{Table: "ml.s", Columns: []dataset.Column{{Column: "word", Name: "x"}}, Missing: rule.MissingDefault, Defaults: []dataset.Default{{Column: "x"}}}
	r, err = bindWide(dataset.Training{}, e)
	require.NoError(t, err)
	require.Nil(t, output(t, r, "x").Default)
	e.Defaults[0].Column = "xx"
	_, err = bindWide(dataset.Training{}, e)
	require.ErrorContains(t, err, `offers no column "xx"`)
	require.Equal(t, "x", fault.As(err).Faults[0].Nearest)
}

// spec: resolve-34, resolve-36, resolve-39
func TestOverlayOutputs(t *testing.T) {
	t.Parallel()
	replace := dataset.Staging{Table: "ml.s", Name: "a", Join: rule.Overlay, Columns: []dataset.Column{{Column: "small"}, {Column: "real", Name: "fresh"}}, MatchedAs: "hit"}
	keep := dataset.Staging{Table: "ml.s", Name: "b", Join: rule.Overlay, Nulls: rule.NullsKeep, Columns: []dataset.Column{{Column: "small"}}}
	semi := dataset.Staging{Table: "ml.s", Name: "c", Join: rule.Semi}
	anti := dataset.Staging{Table: "ml.s", Name: "d", Join: rule.Anti}
	r, err := bindWide(dataset.Training{}, replace, keep, semi, anti)
	require.NoError(t, err)
	small := output(t, r, "small")
	require.Equal(t, resolve.TrainingTable, small.Table)
	require.Len(t, small.Overlays, 2)
	require.Equal(t, 0, small.Overlays[0].Table)
	require.Equal(t, 1, small.Overlays[1].Table)
	require.Equal(t, 31, small.Overlays[1].Field.ID)
	require.True(t, small.Null, "a null of the overlay replaces the value")
	require.Equal(t, 0, output(t, r, "fresh").Table)
	require.True(t, output(t, r, "fresh").Null)
	hit := output(t, r, "hit")
	require.True(t, hit.Matched)
	require.False(t, hit.Null)
	require.Equal(t, arrow.FixedWidthTypes.Boolean, hit.Type())
	training, _ := wideTables()
	require.Len(t, r.Outputs, len(training.Fields)+2, "semi and anti joins offer nothing")

	r, err = bindWide(dataset.Training{}, keep)
	require.NoError(t, err)
	require.False(t, output(t, r, "small").Null, "a null of the overlay is ignored")
}

// spec: resolve-35
func TestOverlayRefuses(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		columns  []dataset.Column
		training dataset.Training
		defaults []dataset.Default
		message  string
	}{
		"the key":            {columns: []dataset.Column{{Column: "big", Name: "id"}}, message: "is part of the key"},
		"a partition column": {columns: []dataset.Column{{Column: "big", Name: "day"}}, message: "is a column by which the table is partitioned"},
		"a distinct column": {
			columns:  []dataset.Column{{Column: "word"}},
			training: dataset.Training{Distinct: &dataset.Distinct{By: []string{"id", "word"}}}, message: "is a column of distinct",
		},
		"another type": {columns: []dataset.Column{{Column: "big", Name: "small"}}, message: "replaces values of one type"},
		"a shape":      {columns: []dataset.Column{{Column: "list", Last: 5}}, message: "shape it in the query's columns"},
		"a default": {
			columns:  []dataset.Column{{Column: "word"}},
			defaults: []dataset.Default{{Column: "word", Value: "x"}}, message: "keeps the training table's value",
		},
	} {
		e := dataset.Staging{Table: "ml.s", Name: "s", Join: rule.Overlay, Columns: c.columns, Defaults: c.defaults}
		if c.defaults != nil {
			e.Missing = rule.MissingDefault
		}
		_, err := bindWide(c.training, e)
		require.Equal(t, fault.Invalid, fault.KindOf(err), name)
		require.ErrorContains(t, err, c.message, name)
	}
	twice := dataset.Staging{Table: "ml.s", Join: rule.Overlay, Columns: []dataset.Column{{Column: "real", Name: "fresh"}}}
	other := twice
	twice.Name, other.Name = "a", "b"
	_, err := bindWide(dataset.Training{}, twice, other)
	require.ErrorContains(t, err, `column "fresh" of b has the name of a column of a`)
}

// spec: resolve-36
func TestMatchedAsNeedsItsOwnName(t *testing.T) {
	t.Parallel()
	_, err := bindWide(dataset.Training{}, dataset.Staging{Table: "ml.s", Name: "s", Prefix: "s_", MatchedAs: "flag"})
	require.Equal(t, "staging[0].matched_as", fault.As(err).Faults[0].Field)
}

// spec: resolve-37
func TestShapes(t *testing.T) {
	t.Parallel()
	list := dataset.Column{Column: "list", Name: "x"}
	for name, c := range map[string]struct {
		column dataset.Column
		query  dataset.Column
		want   string
		shapes int
	}{
		"last":            {dataset.Column{Column: "list", Name: "x", Last: 50}, dataset.Column{Column: "x"}, "list<item: float64, nullable>", 1},
		"last, then last": {dataset.Column{Column: "list", Name: "x", Last: 50}, dataset.Column{Column: "x", First: 3}, "list<item: float64, nullable>", 2},
		"elements":        {list, dataset.Column{Column: "x", As: "float"}, "list<item: float32, nullable>", 1},
		"price to float":  {dataset.Column{Column: "price", Name: "x", As: "float"}, dataset.Column{Column: "x"}, "float32", 1},
		"twice":           {dataset.Column{Column: "small", Name: "x", As: "long"}, dataset.Column{Column: "x", As: "double"}, "float64", 2},
		"date to time":    {dataset.Column{Column: "on", Name: "x", As: "timestamptz"}, dataset.Column{Column: "x"}, "timestamp[us, tz=UTC]", 1},
		"nanoseconds":     {dataset.Column{Column: "fine", Name: "x"}, dataset.Column{Column: "x", As: "timestamp"}, "timestamp[us]", 1},
	} {
		r, err := bindWide(dataset.Training{}, dataset.Staging{Table: "ml.s", Columns: []dataset.Column{c.column}})
		require.NoError(t, err, name)
		selected, err := r.Select([]dataset.Column{c.query})
		require.NoError(t, err, name)
		require.Equal(t, c.want, selected[0].Type().String(), name)
		require.Len(t, selected[0].Shapes, c.shapes, name)
	}
	for column, message := range map[dataset.Column]string{
		{Column: "word", Last: 3}:           "only lists",
		{Column: "word", As: "long"}:        "cannot be cast to long",
		{Column: "list", First: 1, Last: 1}: "cannot be combined",
		{Column: "small", As: "dubble"}:     "not a type to cast to",
		{Column: "at", As: "long"}:          "cannot be cast to long",
		{Column: "list", As: "date"}:        "cannot be cast to date",
	} {
		r, err := bindWide(dataset.Training{})
		require.NoError(t, err)
		_, err = r.Select([]dataset.Column{column})
		require.ErrorContains(t, err, message)
		_, err = bindWide(dataset.Training{}, dataset.Staging{Table: "ml.s", Prefix: "s_", Columns: []dataset.Column{column}})
		require.ErrorContains(t, err, message)
	}
}

// spec: resolve-32
func TestTimesOfOneType(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		training, staging string
		tolerance         dataset.Lag
		want              int64
		message           string
	}{
		"dates":            {"on", "on", dataset.Lag{Time: 60 * time.Hour}, 2, ""},
		"microseconds":     {"at", "at", dataset.Lag{Time: time.Second}, 1_000_000, ""},
		"nanoseconds":      {"fine", "fine", dataset.Lag{Time: time.Second}, 1_000_000_000, ""},
		"longs":            {"big", "big", dataset.Lag{Count: 17}, 17, ""},
		"zoned and not":    {"at", "zoned", dataset.Lag{Time: time.Hour}, 0, "cannot be compared; set zone: UTC if the times of ml.t.at, which have no zone, are in UTC"},
		"not and zoned":    {"zoned", "at", dataset.Lag{Time: time.Hour}, 0, "cannot be compared; set zone: UTC if the times of ml.s.at, which have no zone, are in UTC"},
		"date and zoned":   {"zoned", "on", dataset.Lag{Time: time.Hour}, 0, "cannot be compared; write those of the staging table as timestamps, since a date does not say when"},
		"fine and zoned":   {"zoned", "fine", dataset.Lag{Time: time.Hour}, 0, "cannot be compared; write those of the staging table as timestamptz in the same unit"},
		"no time":          {"word", "word", dataset.Lag{Time: time.Hour}, 0, "is not a time"},
		"unknown":          {"att", "at", dataset.Lag{Time: time.Hour}, 0, `no column "att"`},
		"a negative while": {"at", "at", dataset.Lag{Time: -time.Hour}, 0, "negative"},
		"a while of longs": {"big", "big", dataset.Lag{Time: 24 * time.Hour}, 0, "1d is a duration, but big is a long, which has no known unit: write a count"},
		"a count of dates": {"on", "on", dataset.Lag{Count: 1}, 0, "1 is a count, but on is of type date32: write a duration such as 1d"},
		"a count of times": {"at", "at", dataset.Lag{Count: 24}, 0, "24 is a count, but at is of type timestamp"},
		"nothing":          {"at", "at", dataset.Lag{}, 0, ""},
		"nothing of longs": {"big", "big", dataset.Lag{}, 0, ""},
	} {
		e := dataset.Staging{Table: "ml.s", Prefix: "s_", PointInTime: &dataset.PointInTime{Training: c.training, Staging: c.staging, Tolerance: c.tolerance, Exact: true}}
		r, err := bindWide(dataset.Training{}, e)
		if c.message != "" {
			require.ErrorContains(t, err, c.message, name)
			continue
		}
		require.NoError(t, err, name)
		require.Equal(t, c.want, r.Staging[0].Time.Tolerance, name)
		require.True(t, r.Staging[0].Time.Exact)
	}
}

// spec: resolve-130
func TestTimesWithoutAZoneCountAsUTC(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ training, staging, message string }{
		"zoned and not":  {"at", "zoned", ""},
		"not and zoned":  {"zoned", "at", ""},
		"both zoned":     {"zoned", "zoned", ""},
		"neither":        {"fine", "fine", ""},
		"date and zoned": {"zoned", "on", "cannot be compared"},
		"other units":    {"zoned", "fine", "cannot be compared"},
		"dates":          {"on", "on", "staging[0].point_in_time.zone: column ml.t.on of type date32 has no time zone"},
		"longs":          {"big", "big", "has no time zone"},
	} {
		tolerance := dataset.Lag{Time: 48 * time.Hour}
		if c.training == "big" {
			tolerance = dataset.Lag{Count: 1}
		}
		_, err := bindWide(dataset.Training{}, dataset.Staging{Table: "ml.s", Prefix: "s_", PointInTime: &dataset.PointInTime{
			Training: c.training, Staging: c.staging, Tolerance: tolerance, Exact: true, Zone: dataset.ZoneUTC,
		}})
		if c.message == "" {
			require.NoError(t, err, name)
			continue
		}
		require.ErrorContains(t, err, c.message, name)
	}
}

// spec: resolve-32
func TestToleranceBelowOneUnit(t *testing.T) {
	t.Parallel()
	within := &dataset.PointInTime{Training: "on", Staging: "on", Tolerance: dataset.Lag{Time: 12 * time.Hour}}
	_, err := bindWide(dataset.Training{}, dataset.Staging{Table: "ml.s", Prefix: "s_", PointInTime: within})
	require.ErrorContains(t, err, "12h is less than a unit of on, of type date32, and exact is false: no staging row could match")
}

func TestOrderAndDistinctAreBound(t *testing.T) {
	t.Parallel()
	e := dataset.Staging{Table: "ml.s", Prefix: "s_", Duplicates: rule.DuplicatesLast, OrderBy: []dataset.OrderBy{{Column: "at", Descending: true}, {Column: "real"}}}
	r, err := bindWide(dataset.Training{Distinct: &dataset.Distinct{By: []string{"id"}, Keep: dataset.KeepLast, OrderBy: []dataset.OrderBy{{Column: "small"}}}}, e)
	require.NoError(t, err)
	require.Equal(t, "at", r.Staging[0].Order[0].Field.Name)
	require.True(t, r.Staging[0].Order[0].Descending)
	require.Equal(t, 1, r.Distinct.By[0].ID)
	require.Equal(t, "small", r.Distinct.Order[0].Field.Name)
	e.OrderBy = []dataset.OrderBy{{Column: "list"}}
	_, err = bindWide(dataset.Training{Distinct: &dataset.Distinct{By: []string{"list", "idd"}}}, e)
	require.ErrorContains(t, err, "has no order")
	require.ErrorContains(t, err, "cannot be distinguished by column ml.t.list")
	require.ErrorContains(t, err, `no column "idd"`)
}

// TestDecimalKeysOfOneScale: decimals of one scale can be equal whatever their precision, and
// those of different scales are refused.
//
// spec: join-9, join-10
func TestDecimalKeysOfOneScale(t *testing.T) {
	decimal := func(precision, scale int32) arrow.DataType {
		return &arrow.Decimal128Type{Precision: precision, Scale: scale}
	}
	for _, c := range []struct {
		training, staging arrow.DataType
		text              string
	}{
		{decimal(9, 3), decimal(15, 3), ""},
		{decimal(38, 3), decimal(9, 3), ""},
		{decimal(9, 2), decimal(9, 3), "ml.t.k is decimal(9, 2) and ml.s.k is decimal(9, 3): keys of these types cannot be equal"},
		{decimal(9, 0), arrow.PrimitiveTypes.Int64, "ml.t.k is decimal(9, 0) and ml.s.k is int64: keys of these types cannot be equal"},
	} {
		training := table("ml.t", []catalog.Field{field(1, "k", c.training, false)}, spec(1, 4))
		staging := table("ml.s", []catalog.Field{field(1, "k", c.staging, false)}, spec(1, 4))
		_, err := resolve.Bind(dataset.Dataset{
			Name: "d", Training: dataset.Training{Table: training.Name}, Key: []string{"k"},
			Staging: []dataset.Staging{{Name: "s", Table: staging.Name, Key: []dataset.KeyPair{{Training: "k", Staging: "k"}}}},
		}.Defaults(), training, []*catalog.Table{staging})
		if c.text == "" {
			require.NoError(t, err)
			continue
		}
		require.Equal(t, fault.Invalid.String(), fault.KindOf(err).String(), "%v", err)
		require.ErrorContains(t, err, c.text)
	}
}

// A hostile query may name ten thousand columns that do not exist, in a list or in an expression.
func TestManyUnknownColumns(t *testing.T) {
	t.Parallel()
	r, err := bindWide(dataset.Training{}, dataset.Staging{Name: "s", Prefix: "s_", Join: rule.Left})
	require.NoError(t, err)
	var columns []dataset.Column
	var terms []string
	for i := range 10_000 {
		name := fmt.Sprintf("word%d", i)
		columns = append(columns, dataset.Column{Column: name})
		if i < 5000 {
			terms = append(terms, name)
		}
	}
	for _, choose := range []dataset.Selection{{Columns: columns}, {Columns: []dataset.Column{}, Dense: []dataset.Dense{{Name: "d", Columns: columns}}}} {
		_, err = r.Choose(choose)
		faults := fault.As(err).Faults
		require.Len(t, faults, 101)
		require.Equal(t, "9900 columns more were not checked", faults[100].Message)
	}
	_, err = r.Select([]dataset.Column{{Column: "x", Expr: "coalesce(" + strings.Join(terms, ", ") + ")"}})
	require.NotEmpty(t, fault.As(err).Faults)
}
