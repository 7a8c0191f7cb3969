package backfill_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/cmd/penstock/backfill"
	"github.com/penstock/penstock/internal/config"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/joiner/rule"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/dataset"
)

var rewrite = flag.Bool("rewrite", false, "write the scripts of testdata again")

// column returns a column of a table.
func column(id int, name string, t arrow.DataType) catalog.Field {
	return catalog.Field{ID: id, Name: name, Type: t}
}

// partition returns a partition field.
func partition(source int, kind catalog.TransformKind, n int) catalog.PartitionField {
	return catalog.PartitionField{ID: 1000 + source, Source: source, Name: string(kind), Transform: catalog.Transform{Kind: kind, N: n}}
}

// Types of columns.
var (
	long   = arrow.PrimitiveTypes.Int64
	text   = arrow.BinaryTypes.String
	number = arrow.PrimitiveTypes.Float32
	moment = &arrow.TimestampType{Unit: arrow.Microsecond, TimeZone: "UTC"}
)

// home returns a dataset whose training table is partitioned by the given fields.
func home(spec ...catalog.PartitionField) backfill.Target {
	clicks := arrow.ListOf(long)
	return backfill.Target{
		Dataset: dataset.Dataset{
			Name: "home", Key: []string{"request_id"}, Training: dataset.Training{Table: "ml.impressions"},
			Staging: []dataset.Staging{{
				Table: "features.history", Key: []dataset.KeyPair{{Training: "request_id", Staging: "req_id"}},
				Missing: rule.MissingDefault, Defaults: []dataset.Default{{Column: "country", Value: "??"}},
			}},
		},
		Training: &catalog.Table{
			Name: "ml.impressions",
			Fields: []catalog.Field{
				column(1, "request_id", long), column(2, "day", arrow.FixedWidthTypes.Date32), column(3, "surface", text),
				column(4, "ctr", number), column(5, "at", moment), column(6, "user", arrow.StructOf(arrow.Field{Name: "id", Type: long, Nullable: true})),
				column(8, "odd `name`", text), column(9, "clock", arrow.FixedWidthTypes.Time64us),
			},
			Nested: []catalog.Field{column(7, "user.id", long)},
			Specs:  map[int]catalog.Spec{0: {partition(1, catalog.Bucket, 3)}, 1: spec},
		},
		Staging: []*catalog.Table{{
			Name: "features.history",
			Fields: []catalog.Field{
				column(1, "req_id", long), column(2, "clicks", clicks), column(3, "country", text),
			},
			Specs: map[int]catalog.Spec{0: {partition(1, catalog.Bucket, 8)}},
		}},
		Others: []dataset.Dataset{{Name: "other", Training: dataset.Training{Table: "ml.x"}, Staging: []dataset.Staging{{Table: "features.history"}}}},
	}
}

// daily returns a spec that partitions by day, surface and bucket.
func daily() []catalog.PartitionField {
	return []catalog.PartitionField{partition(2, catalog.Identity, 0), partition(3, catalog.Identity, 0), partition(1, catalog.Bucket, 12)}
}

// features parses features of the form NAME:TYPE.
func features(t *testing.T, texts ...string) []backfill.Feature {
	t.Helper()
	var out []backfill.Feature
	for _, one := range texts {
		f, err := backfill.ParseFeature(one)
		require.NoError(t, err)
		out = append(out, f)
	}
	return out
}

// loaded writes the script's dataset to a config file, loads the file, and returns its dataset.
func loaded(t *testing.T, s *backfill.Script) dataset.Dataset {
	t.Helper()
	file := filepath.Join(t.TempDir(), "penstock.yaml")
	head := "catalogs:\n  default: {type: sql, uri: \"sqlite:////lake/catalog.db\"}\n"
	require.NoError(t, os.WriteFile(file, []byte(head+s.YAML()), 0o600))
	c, err := config.Load(config.Origin{File: file, Memory: 1 << 30})
	require.NoError(t, err, s.YAML())
	require.Len(t, c.Datasets, 1)
	return c.Datasets[0]
}

// The scripts match testdata for a feature that is new, that replaces a column of either table, or
// that is removed. A config file with the printed dataset loads as the same dataset.
//
// spec: backfill-1, backfill-4, backfill-5, backfill-6, backfill-7
func TestScripts(t *testing.T) {
	t.Parallel()
	ctr := features(t, "ctr_v2:float")
	noKey := home(daily()...)
	noKey.Dataset = dataset.Dataset{Name: "impressions", Training: dataset.Training{Table: "ml.impressions"}}
	noKey.Staging = nil
	noKey.SQLName = func(table string) string { return "lake." + table }
	for name, write := range map[string]func() (*backfill.Script, error){
		"new": func() (*backfill.Script, error) {
			return backfill.Add(home(daily()...), backfill.StagingPlan{Table: "features.ctr_v2", Features: ctr})
		},
		"odd_names": func() (*backfill.Script, error) {
			return backfill.Add(home(partition(8, catalog.Bucket, 4), partition(5, catalog.Hour, 0)), backfill.StagingPlan{
				Table: "features.and.more", Key: []string{"odd `name`"}, Sort: []string{"a: b", "odd `name`"}, Buckets: 8,
				Features: features(t, "`a: b`:string", "nested:struct<`odd ``field``, 1`: map<string, decimal(9, 2)>, of: list<struct<id:long, `x`:timestamp>>>"),
			})
		},
		"unaligned": func() (*backfill.Script, error) {
			return backfill.Add(noKey, backfill.StagingPlan{Table: "features.users", Key: []string{"user.id"}, Buckets: 16, Unaligned: true, Features: features(t, "age:int")})
		},
		"replaces_training": func() (*backfill.Script, error) {
			return backfill.Replace(home(daily()...), backfill.StagingPlan{Table: "features.ctr_v2", Features: ctr}, "ctr")
		},
		"replaces_staging": func() (*backfill.Script, error) {
			return backfill.Replace(home(daily()...), backfill.StagingPlan{Table: "features.country_v2", Features: features(t, "code:int")}, "country")
		},
		"removes_training": func() (*backfill.Script, error) { return backfill.Remove(home(daily()...), "ctr") },
		"removes_staging":  func() (*backfill.Script, error) { return backfill.Remove(home(daily()...), "country") },
		"removes_entry": func() (*backfill.Script, error) {
			from := home(daily()...)
			from.Dataset.Staging[0].Columns = []dataset.Column{{Column: "country"}}
			return backfill.Remove(from, "country")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, err := write()
			require.NoError(t, err)
			path := filepath.Join("testdata", name+".sql")
			if *rewrite {
				require.NoError(t, os.WriteFile(path, []byte(s.Text()), 0o600))
			}
			want, err := os.ReadFile(path)
			require.NoError(t, err)
			require.Equal(t, string(want), s.Text())
			require.Equal(t, string(s.Dataset.Canonical()), string(loaded(t, s).Canonical()))
			require.Equal(t, s.Dataset.Name, loaded(t, s).Name)
			for line := range strings.Lines(s.YAML()) {
				require.Contains(t, s.Text(), "\n-- "+line)
			}
		})
	}
}

// Only the replaced column changes. Other columns and entries stay the same.
//
// spec: backfill-6
func TestReplacedColumnsAreTheOnlyChange(t *testing.T) {
	t.Parallel()
	for old, want := range map[string][]dataset.Staging{
		"ctr": {
			home().Dataset.Defaults().Staging[0],
			{Table: "features.v", Join: rule.Overlay, Columns: []dataset.Column{{Column: "v", Name: "ctr"}}},
		},
		"country": {
			{
				Table: "features.history", Key: []dataset.KeyPair{{Training: "request_id", Staging: "req_id"}},
				Columns: []dataset.Column{{Column: "clicks"}},
			},
			{Table: "features.v", Columns: []dataset.Column{{Column: "v", Name: "country"}}},
		},
	} {
		s, err := backfill.Replace(home(partition(1, catalog.Bucket, 4)), backfill.StagingPlan{Table: "features.v", Features: features(t, "v:float")}, old)
		require.NoError(t, err, old)
		d := home().Dataset
		d.Staging = want
		require.Equal(t, string(d.Canonical()), string(s.Dataset.Canonical()), old)
	}
}

// Columns are removed by their names in the dataset. An entry without columns stays if it affects
// the rows or has a check. A column that the entry provides under two names cannot be removed.
//
// spec: backfill-7
func TestRemovedColumnsAreFoundByTheirNames(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		entry dataset.Staging
		want  string // columns of the entry
	}{
		"renamed":      {dataset.Staging{Columns: []dataset.Column{{Column: "country", Name: "gone"}, {Column: "clicks", Name: "country"}}}, `[{"column":"clicks","name":"country"}]`},
		"used twice":   {dataset.Staging{Columns: []dataset.Column{{Column: "country", Name: "gone"}, {Column: "country"}}}, ""},
		"inner":        {dataset.Staging{Join: rule.Inner, Columns: []dataset.Column{{Column: "country", Name: "gone"}}}, `[]`},
		"matched":      {dataset.Staging{MatchedAs: "has", Columns: []dataset.Column{{Column: "country", Name: "gone"}}}, `[]`},
		"checked":      {dataset.Staging{MinMatch: 0.5, Columns: []dataset.Column{{Column: "country", Name: "gone"}}}, `[]`},
		"complete":     {dataset.Staging{Missing: rule.MissingError, Columns: []dataset.Column{{Column: "country", Name: "gone"}}}, `[]`},
		"all its rows": {dataset.Staging{Duplicates: rule.DuplicatesAll, Columns: []dataset.Column{{Column: "country", Name: "gone"}}}, `[]`},
	} {
		from := home(partition(1, catalog.Bucket, 4))
		c.entry.Table, c.entry.Key = "features.history", from.Dataset.Staging[0].Key
		from.Dataset.Staging[0] = c.entry
		s, err := backfill.Remove(from, "gone")
		if c.want == "" {
			require.ErrorContains(t, err, `has no column "country"`, name)
			continue
		}
		require.NoError(t, err, name)
		require.Contains(t, string(s.Dataset.Canonical()), `"columns":`+c.want, name)
		require.Contains(t, s.SQL, "DROP COLUMN `country`", name)
	}
}

// The number of staging buckets divides that of the training table or is a multiple of it.
//
// spec: backfill-2
func TestBucketsDivideOrMultiply(t *testing.T) {
	t.Parallel()
	for buckets, want := range map[int]string{
		0: "bucket(12, `request_id`)", 1: "bucket(1, `request_id`)", 4: "bucket(4, `request_id`)", 12: "bucket(12, `request_id`)",
		36: "bucket(36, `request_id`)", 5: "use 4 or 6", 7: "use 6 or 12", 13: "use 12 or 24", 30: "use 24 or 36", -1: "not a number", 1 << 17: "not a number",
	} {
		s, err := backfill.Add(home(daily()...), backfill.StagingPlan{Table: "features.v", Features: features(t, "v:int"), Buckets: buckets})
		if strings.HasPrefix(want, "bucket") {
			require.NoError(t, err, buckets)
			require.Contains(t, s.SQL, "PARTITIONED BY (`day`, "+want+")", buckets)
			continue
		}
		require.Equal(t, fault.Invalid, fault.KindOf(err), buckets)
		require.Contains(t, err.Error()+fault.As(err).Remedy, want, buckets)
	}
}

// The staging table has the training table's partitions of the key and of one other column. All
// other partition fields are left out.
//
// spec: backfill-3
func TestPartitionsOfOneColumnAreAligned(t *testing.T) {
	t.Parallel()
	bucket := partition(1, catalog.Bucket, 4)
	for name, c := range map[string]struct {
		spec  []catalog.PartitionField
		terms string
		align string // of both tables
		says  string
	}{
		"buckets alone":     {[]catalog.PartitionField{bucket}, "bucket(4, `request_id`)", "", ""},
		"a time":            {[]catalog.PartitionField{partition(3, catalog.Identity, 0), partition(5, catalog.Month, 0), bucket}, "months(`at`), bucket(4, `request_id`)", "at", "surface: it is not derived"},
		"two of one time":   {[]catalog.PartitionField{partition(5, catalog.Identity, 0), partition(5, catalog.Hour, 0), bucket}, "`at`, hours(`at`), bucket(4, `request_id`)", "at", ""},
		"a value":           {[]catalog.PartitionField{partition(3, catalog.Identity, 0), bucket}, "`surface`, bucket(4, `request_id`)", "surface", ""},
		"buckets of others": {[]catalog.PartitionField{partition(7, catalog.Bucket, 9), bucket}, "bucket(4, `request_id`)", "", "bucket(9, user.id): it is not derived"},
		"ranges of the key": {[]catalog.PartitionField{partition(1, catalog.Truncate, 10), bucket}, "truncate(10, `request_id`), bucket(4, `request_id`)", "", ""},
		"an unknown one":    {[]catalog.PartitionField{partition(1, catalog.Other, 0), bucket}, "bucket(4, `request_id`)", "", "other: its transform is unknown"},
		"a bucket of days":  {[]catalog.PartitionField{partition(2, catalog.Identity, 0), partition(2, catalog.Bucket, 2), bucket}, "`day`, bucket(2, `day`), bucket(4, `request_id`)", "day", ""},
	} {
		s, err := backfill.Add(home(c.spec...), backfill.StagingPlan{Table: "features.v", Features: features(t, "v:int")})
		require.NoError(t, err, name)
		require.Contains(t, s.SQL, "PARTITIONED BY ("+c.terms+")", name)
		require.Contains(t, strings.ReplaceAll(s.SQL, "\n-- ", " "), c.says, name)
		if c.align == "" {
			require.Nil(t, s.Dataset.Staging[1].Align, name)
			continue
		}
		require.Equal(t, c.align, s.Dataset.Staging[1].Align.Training, name)
		require.Equal(t, c.align, s.Dataset.Staging[1].Align.Staging, name)
	}
}

// Scripts that cannot work are refused before Spark runs them.
//
// spec: backfill-5, backfill-8
func TestScriptsThatCannotWork(t *testing.T) {
	t.Parallel()
	add := func(change func(*backfill.Target, *backfill.StagingPlan)) error {
		to := home(daily()...)
		p := backfill.StagingPlan{Table: "features.v", Features: features(t, "v:int")}
		change(&to, &p)
		_, err := backfill.Add(to, p)
		return err
	}
	replace := func(text, old string) error {
		_, err := backfill.Replace(home(daily()...), backfill.StagingPlan{Table: "features.v", Features: features(t, text)}, old)
		return err
	}
	remove := func(column string, change func(*backfill.Target)) error {
		from := home(daily()...)
		change(&from)
		_, err := backfill.Remove(from, column)
		return err
	}
	same := func(*backfill.Target) {}
	for want, err := range map[string]error{
		"there is no column to backfill":               add(func(_ *backfill.Target, p *backfill.StagingPlan) { p.Features = nil }),
		`table ml.impressions has no column "request"`: add(func(_ *backfill.Target, p *backfill.StagingPlan) { p.Key = []string{"request"} }),
		"is not bucketed by a column of the key":       add(func(_ *backfill.Target, p *backfill.StagingPlan) { p.Key = []string{"user.id"} }),
		`Spark SQL cannot declare column "clock"`:      add(func(_ *backfill.Target, p *backfill.StagingPlan) { p.Key, p.Buckets = []string{"clock"}, 2 }),
		`two columns "V"`:                              add(func(_ *backfill.Target, p *backfill.StagingPlan) { p.Features = features(t, "v:int", "V:int") }),
		`two columns "day"`:                            add(func(_ *backfill.Target, p *backfill.StagingPlan) { p.Features = features(t, "day:date") }),
		`the staging table has no column "surface"`:    add(func(_ *backfill.Target, p *backfill.StagingPlan) { p.Sort = []string{"surface"} }),
		`cannot be sorted by column "v"`: add(func(_ *backfill.Target, p *backfill.StagingPlan) {
			p.Features, p.Sort = features(t, "v:list<int>"), []string{"v"}
		}),
		"has the name of a column of the training table": add(func(_ *backfill.Target, p *backfill.StagingPlan) { p.Features = features(t, "ctr:float") }),
		"control characters":                             add(func(_ *backfill.Target, p *backfill.StagingPlan) { p.Features[0].Name = "a\nb" }),
		"the dataset has no key": add(func(to *backfill.Target, _ *backfill.StagingPlan) {
			to.Dataset, to.Training.Specs = dataset.Dataset{Name: "x"}, nil
			to.Staging = nil
		}),
		"has no column \"labl\" that comes from a table":           replace("v:int", "labl"),
		"the new column has the same name as the old one, \"ctr\"": replace("ctr:int", "ctr"),
		"an overlay replaces values of one type":                   replace("v:int", "ctr"),
		"part of the key":                                          replace("v:long", "request_id"),
		"has no column \"x\" that comes from a table":              remove("x", same),
		"partitioned by it":                                        remove("surface", same),
		`key[0]: table ml.impressions has no column "user.id"`:     remove("user", func(d *backfill.Target) { d.Dataset.Key = []string{"user.id"} }),
		`no column "ctr"`:                                          remove("ctr", func(d *backfill.Target) { d.Dataset.Training.RequestLevel = []string{"ctr"} }),
		`staging[0].order_by[0]: table features.history has no column`: remove("country", func(d *backfill.Target) {
			d.Dataset.Staging[0].Duplicates, d.Dataset.Staging[0].OrderBy = rule.DuplicatesLast, []dataset.OrderBy{{Column: "country"}}
		}),
		"replaces its values: remove that entry first": remove("ctr", func(d *backfill.Target) {
			d.Dataset.Staging[0] = dataset.Staging{Table: "features.history", Key: d.Dataset.Staging[0].Key, Join: rule.Overlay, Columns: []dataset.Column{{Column: "score", Name: "ctr"}}}
			d.Staging[0].Fields = append(d.Staging[0].Fields, column(9, "score", number))
		}),
	} {
		require.ErrorContains(t, err, want)
		require.Contains(t, []fault.Kind{fault.Invalid, fault.NotFound}, fault.KindOf(err), want)
	}
	_, err := backfill.Replace(home(daily()...), backfill.StagingPlan{Table: "features.v", Features: features(t, "a:int", "b:int")}, "ctr")
	require.ErrorContains(t, err, "one column replaces a column")
}

// Types have Iceberg's names, in upper or lower case. Other names are refused with a list of the
// valid ones.
//
// spec: backfill-1
func TestTypesOfFeatures(t *testing.T) {
	t.Parallel()
	for given, want := range map[string]string{
		"boolean": "BOOLEAN", "int": "INT", "long": "BIGINT", "bigint": "BIGINT", "float": "FLOAT", "double": "DOUBLE", "date": "DATE",
		"timestamp": "TIMESTAMP_NTZ", "timestamp_ntz": "TIMESTAMP_NTZ", "timestamptz": "TIMESTAMP", "timestamp_ltz": "TIMESTAMP",
		"string": "STRING", "BINARY": "BINARY", "decimal(38,0)": "DECIMAL(38, 0)", "Decimal( 9 , 2 )": "DECIMAL(9, 2)",
		"list<int>": "ARRAY<INT>", "array< string >": "ARRAY<STRING>", "map<int,list<long>>": "MAP<INT, ARRAY<BIGINT>>",
		"struct<a:int, b c : string>": "STRUCT<`a`: INT, `b c`: STRING>",
	} {
		s, err := backfill.Add(home(daily()...), backfill.StagingPlan{Table: "features.v", Features: features(t, "v:"+given)})
		require.NoError(t, err, given)
		require.Contains(t, s.SQL, "\n  `v` "+want+"\n", given)
	}
	for given, want := range map[string]string{
		"v": "no colon", ":int": "a name is empty", "``:int": "a name is empty", "`v:int": "a backtick is missing", "v:": `no type ""`, "v:uuid": `no type "uuid"`,
		"v:time": "cannot", "v:int x": "follows the type", "v:list": `"<" is missing`, "v:list<int": `">" is missing`, "v:map<int>": `"," is missing`,
		"v:struct<a:int": `">" is missing`, "v:struct<a:int,A:int>": "two fields", "v:decimal": "a precision", "v:decimal(39, 0)": "a precision", "v:decimal(3, 4)": "a precision",
		"v:decimal(0, 0)": "a precision", "v:decimal(3)": "a precision", "v:" + strings.Repeat("list<", 60) + "int": "nested deeper", "v:list<int>>": "follows the type",
	} {
		_, err := backfill.ParseFeature(given)
		require.Error(t, err, given)
		require.Contains(t, err.Error()+" "+fault.As(err).Message+"cannot", want, given)
		require.Contains(t, fault.As(err).Remedy, "struct<NAME: T", given)
	}
}

// Two entries read one table, from main and from a branch. A column that both provide cannot be
// removed: the statement would remove it from the other entry, too, although each entry has its own
// *catalog.Table. An entry with another schema, such as that of a tag, keeps the column.
//
// spec: backfill-8
func TestColumnsOfTwoEntriesAreNotRemoved(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		other  dataset.Staging
		schema int
		want   string
	}{
		"listed":       {dataset.Staging{Columns: []dataset.Column{{Column: "country", Name: "new_country"}}}, 0, `no column "country"`},
		"not listed":   {dataset.Staging{Prefix: "new_"}, 0, `column new_country of the dataset has its values, too`},
		"not given":    {dataset.Staging{Columns: []dataset.Column{{Column: "clicks", Name: "new_clicks"}}}, 0, ""},
		"another form": {dataset.Staging{Prefix: "new_"}, 1, ""},
	} {
		from := home(partition(1, catalog.Bucket, 4))
		branch := *from.Staging[0]
		branch.Pin.Schema = c.schema
		c.other.Table, c.other.Name, c.other.Key = "features.history", "new", from.Dataset.Staging[0].Key
		from.Dataset.Staging, from.Staging = append(from.Dataset.Staging, c.other), append(from.Staging, &branch)
		_, err := backfill.Remove(from, "country")
		if c.want == "" {
			require.NoError(t, err, name)
			continue
		}
		require.ErrorContains(t, err, c.want, name)
		require.Equal(t, fault.Invalid, fault.KindOf(err), name)
	}
}

// The script does not propose to drop a table that another entry of the dataset reads.
//
// spec: backfill-8
func TestTablesThatOtherEntriesReadAreNotDropped(t *testing.T) {
	t.Parallel()
	from := home(partition(1, catalog.Bucket, 4))
	entry := &from.Dataset.Staging[0]
	entry.Columns, entry.Missing, entry.Defaults = []dataset.Column{{Column: "country"}}, rule.MissingNull, nil
	alone, err := backfill.Remove(from, "country")
	require.NoError(t, err)
	require.Contains(t, alone.SQL, "DROP TABLE")
	tagged := *from.Staging[0]
	tagged.Pin.Schema = 1
	other := dataset.Staging{Table: entry.Table, Name: "tagged", Key: entry.Key, Prefix: "tagged_"}
	from.Dataset.Staging, from.Staging = append(from.Dataset.Staging, other), append(from.Staging, &tagged)
	both, err := backfill.Remove(from, "country")
	require.NoError(t, err)
	require.NotContains(t, both.SQL, "DROP TABLE")
	require.Contains(t, both.SQL, "DROP COLUMN")
}

// spec: backfill-11
func TestPromotedColumnsAreNeitherReplacedNorRemoved(t *testing.T) {
	target := home(daily()...)
	entry := target.Dataset.Defaults().Staging[0]
	origin := dataset.ColumnOrigin{
		Promotion: "p", Entry: entry.Name, Table: entry.Table, Definition: entry.PromotionDigest(target.Dataset.Key), Columns: 2, Nullable: true,
	}
	target.Training.Origins = map[int]dataset.ColumnOrigin{}
	for i, f := range target.Staging[0].Fields[1:] {
		origin.Name = f.Name
		target.Training.Fields = append(target.Training.Fields, column(20+i, f.Name, f.Type))
		target.Training.Origins[20+i] = origin
	}
	_, removed := backfill.Remove(target, "clicks")
	_, replaced := backfill.Replace(target, backfill.StagingPlan{Table: "features.v2", Features: features(t, "clicks_v2:list<long>")}, "clicks")
	for _, err := range []error{removed, replaced} {
		require.Equal(t, fault.Invalid, fault.KindOf(err), "%v", err)
		require.ErrorContains(t, err, "column clicks of dataset home was promoted: table ml.impressions has its values")
		require.Contains(t, fault.As(err).Remedy, "penstock demote ml.impressions")
	}
	_, err := backfill.Add(target, backfill.StagingPlan{Table: "features.v2", Features: features(t, "ctr_v2:float")})
	require.NoError(t, err)
}
