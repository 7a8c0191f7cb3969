package plan_test

import (
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/expr"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/joiner/rule"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/plan"
	"github.com/penstock/penstock/loader/resolve"
)

var rewrite = flag.Bool("rewrite", false, "write the explain texts into testdata; review the diff")

// joined builds the plan of a dataset over tables in memory.
func joined(d dataset.Dataset, tables []*catalog.Table, files plan.Files, q dataset.Query) (*plan.Plan, error) {
	r, err := resolve.Bind(d.Defaults(), tables[0], tables[1:])
	if err != nil {
		return nil, err
	}
	return bindAndBuild(r, files, q.Defaults())
}

// bindAndBuild builds the plan of a query over known files.
func bindAndBuild(r *resolve.Relation, files plan.Files, q dataset.Query) (*plan.Plan, error) {
	b, err := plan.Bind(r, q.Rows)
	if err != nil {
		return nil, err
	}
	return plan.Build(b, files)
}

func partitioned(name string, source int, kind catalog.TransformKind, n int) catalog.PartitionField {
	return catalog.PartitionField{ID: 1000 + source, Source: source, Name: name, Transform: catalog.Transform{Kind: kind, N: n}}
}

// history returns a staging table of a request's history, with a day.
func history(specs map[int]catalog.Spec) *catalog.Table {
	return &catalog.Table{
		Name: "features.history", Pin: dataset.TablePin{UUID: "s", Snapshot: 7, Schema: 1},
		Fields: []catalog.Field{
			{ID: 1, Name: "req", Type: arrow.PrimitiveTypes.Int64},
			{ID: 2, Name: "day", Type: arrow.PrimitiveTypes.Int64},
			{ID: 3, Name: "age", Type: arrow.PrimitiveTypes.Int32},
		},
		Specs: specs,
	}
}

func staged(name string, spec int, bytes int64, partition ...any) catalog.File {
	return catalog.File{Location: name, Bytes: bytes, Rows: bytes / 100, Sequence: 1, Spec: spec, Partition: partition}
}

func entry() dataset.Staging {
	return dataset.Staging{
		Table: "features.history", Key: []dataset.KeyPair{{Training: "request_id", Staging: "req"}}, Columns: []dataset.Column{{Column: "age"}},
	}
}

func homefeed(entries ...dataset.Staging) dataset.Dataset {
	return dataset.Dataset{Name: "home", Key: []string{"request_id"}, Training: dataset.Training{Table: "ml.train"}, Staging: entries}
}

// mixed returns two tables that changed their specs: the training table its bucket
// count, the staging table from no buckets to some, and then to more.
func mixed() ([]*catalog.Table, plan.Files) {
	t := training(4)
	t.Specs[1] = catalog.Spec{partitioned("day", 2, catalog.Identity, 0), partitioned("bucket", 1, catalog.Bucket, 8)}
	s := history(map[int]catalog.Spec{0: nil, 1: {partitioned("b", 1, catalog.Bucket, 2)}, 2: {partitioned("b", 1, catalog.Bucket, 12)}})
	s.SortOrders = map[int]catalog.SortOrder{3: {{Source: 1, Transform: catalog.Transform{Kind: catalog.Identity}}, {Source: 2, Transform: catalog.Transform{Kind: catalog.Identity}, Descending: true}}}
	var files plan.Files
	for day := range int64(2) {
		for b := range int64(4 + 4*day) {
			f := file(fmt.Sprintf("mem://train/%d/%d", day, b), day+1, b, 1000+b, day+1)
			f.Spec = int(day)
			files.Training.Files = append(files.Training.Files, f)
		}
	}
	old := staged("mem://history/old", 0, 3000)
	old.Ranges = map[int]expr.Range{1: {Lower: expr.Int(0), Upper: expr.Int(99), HasLower: true, HasUpper: true, Rows: 30}}
	staging := []catalog.File{old}
	for b := range int64(2) {
		staging = append(staging, staged(fmt.Sprintf("mem://history/2/%d", b), 1, 20_000, b))
	}
	for b := range int64(12) {
		f := staged(fmt.Sprintf("mem://history/12/%d", b), 2, 50_000, b)
		f.SortOrder = 3
		staging = append(staging, f)
	}
	files.Staging = []plan.Listing{{Files: staging}}
	return []*catalog.Table{t, s}, files
}

// TestExplainOfMixedSpecs checks the text of a table of several specs, and of one that
// names every rule.
func TestExplainOfMixedSpecs(t *testing.T) {
	t.Parallel()
	tables, files := mixed()
	three := &dataset.Sample{Hash: &dataset.HashRange{From: 0.25, To: 1}, Rate: 1} // quarters: bucket 0 of 4, and 0 and 4 of 8, are pruned
	p, err := joined(homefeed(entry()), tables, files, dataset.Query{Rows: dataset.Rows{Lanes: 2, Sample: three}})
	require.NoError(t, err)
	golden(t, "mixed", p.String())
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := "testdata/" + name + ".txt"
	if *rewrite {
		require.NoError(t, os.MkdirAll("testdata", 0o755))
		require.NoError(t, os.WriteFile(path, []byte(got), 0o600))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(want), got, "run with -rewrite and review the diff")
}

// TestExplainOfRules checks the text of a plan with most rules at once.
func TestExplainOfRules(t *testing.T) {
	t.Parallel()
	tables, files := days([]int64{1, 2, 3, 5}, []int64{1, 3})
	e := entry()
	e.Align = &dataset.Align{Training: "day", Staging: "day", Rule: dataset.AlignLatestBefore}
	e.Join, e.Nulls, e.Columns = rule.Overlay, rule.NullsKeep, []dataset.Column{{Column: "age", Name: "score"}, {Column: "age", Name: "fresh"}}
	e.Duplicates, e.OrderBy, e.MinMatch = rule.DuplicatesLast, []dataset.OrderBy{{Column: "day", Descending: true}}, 0.5
	e.Strategy = rule.StrategyMerge
	d := homefeed(e)
	tables[0].Fields = append(tables[0].Fields, catalog.Field{ID: 3, Name: "score", Type: arrow.PrimitiveTypes.Int32})
	d.Training.Distinct = &dataset.Distinct{By: []string{"request_id"}, Scope: dataset.ScopePartition}
	p, err := joined(d, tables, files, dataset.Query{
		Rows: dataset.Rows{Filter: dataset.MustFilter("score > 3 AND fresh IS NOT NULL AND day > 0 AND (day = 1 OR score < 9)"), Sample: &dataset.Sample{Hash: &dataset.HashRange{To: 0.5}, Rate: 1}},
	})
	require.NoError(t, err)
	golden(t, "rules", p.String())
}

// days returns tables of one bucket and the given days.
func days(training, staging []int64) ([]*catalog.Table, plan.Files) {
	t := &catalog.Table{
		Name: "ml.train", Pin: dataset.TablePin{UUID: "t", Snapshot: 1},
		Fields: []catalog.Field{{ID: 1, Name: "request_id", Type: arrow.PrimitiveTypes.Int64}, {ID: 2, Name: "day", Type: arrow.PrimitiveTypes.Int64}},
		Specs:  map[int]catalog.Spec{0: {partitioned("day", 2, catalog.Identity, 0), partitioned("bucket", 1, catalog.Bucket, 2)}},
	}
	s := history(map[int]catalog.Spec{0: {partitioned("day", 2, catalog.Identity, 0), partitioned("b", 1, catalog.Bucket, 3)}})
	files := plan.Files{Staging: make([]plan.Listing, 1)}
	for _, day := range training {
		for b := range int64(2) {
			files.Training.Files = append(files.Training.Files, file(fmt.Sprintf("train/%d/%d", day, b), day, b, 100, 1))
		}
	}
	for _, day := range staging {
		for b := range int64(3) {
			files.Staging[0].Files = append(files.Staging[0].Files, staged(fmt.Sprintf("history/%d/%d", day, b), 0, 1000, day, b))
		}
	}
	return []*catalog.Table{t, s}, files
}

// TestPartitionsWithoutAnAlignedOneAreCounted checks that training partitions without an
// aligned staging partition are counted with their rows.
//
// spec: resolve-30
func TestPartitionsWithoutAnAlignedOneAreCounted(t *testing.T) {
	t.Parallel()
	tables, files := days([]int64{1, 2, 3, 5}, []int64{1, 3})
	e := entry()
	e.Align = &dataset.Align{Training: "day", Staging: "day", Rule: dataset.AlignLag, Lag: dataset.Lag{Count: 1}}
	p, err := joined(homefeed(e), tables, files, dataset.Query{})
	require.NoError(t, err)
	require.Equal(t, plan.Unaligned{Partitions: 3, Rows: 600}, union(p))
	for _, s := range p.Splits {
		if s.Partition[0] != int64(2) {
			require.Equal(t, resolve.NoGroup, s.Groups[0])
			continue
		}
		for _, f := range p.Group(0, s.Groups[0]).Files {
			require.Equal(t, int64(1), f.File.Partition[0])
		}
	}
	require.Contains(t, p.String(), "training partitions without one: 3, with 600 rows")
	e.Align.Lag.Count = 2
	other, err := joined(homefeed(e), tables, files, dataset.Query{})
	require.NoError(t, err)
	require.Equal(t, plan.Unaligned{Partitions: 2, Rows: 400}, union(other))
}

func union(p *plan.Plan) plan.Unaligned { return p.Staging[0].Unaligned }

// TestOrderOfSeveralSpecs checks that fields that all specs share are compared first,
// whatever the filters keep.
//
// spec: order-19
func TestOrderOfSeveralSpecs(t *testing.T) {
	t.Parallel()
	table := training(2)
	table.Fields = append(table.Fields, catalog.Field{ID: 3, Name: "region", Type: arrow.BinaryTypes.String})
	day, b := partitioned("day", 2, catalog.Identity, 0), partitioned("bucket", 1, catalog.Bucket, 2)
	region := partitioned("region", 3, catalog.Identity, 0)
	table.Specs = map[int]catalog.Spec{0: {day, b}, 1: {region, day}, 2: {day}, 3: {region, b, day}, 4: {day, partitioned("bucket", 1, catalog.Bucket, 4)}}
	var files []catalog.File
	add := func(spec int, partition ...any) {
		f := catalog.File{Location: fmt.Sprint(spec, partition), Rows: 10, Sequence: 1, Spec: spec, Partition: partition}
		for i, p := range table.Specs[spec] {
			if d, ok := partition[i].(int64); ok && p.Source == 2 {
				f.Ranges = map[int]expr.Range{2: expr.Constant(expr.Int(d), 10)}
			}
		}
		files = append(files, f)
	}
	add(3, "a", int64(1), int64(2))
	add(2, int64(2))
	add(1, "b", int64(1))
	add(0, int64(2), int64(1))
	add(0, int64(1), int64(1))
	add(1, "a", int64(2))
	add(3, "b", int64(0), int64(1))
	add(2, int64(1))
	add(4, int64(1), int64(1))
	var want []string
	for _, filter := range []string{"", "day = 2"} {
		var got []string
		for _, s := range build(t, table, files, dataset.Query{Rows: dataset.Rows{Filter: dataset.MustFilter(filter)}}).Splits {
			require.Len(t, s.Files, 1)
			got = append(got, s.Files[0].File.Location)
		}
		if filter == "" {
			want = got
			require.Equal(t, []string{"2 [1]", "0 [1 1]", "4 [1 1]", "1 [b 1]", "3 [b 0 1]", "2 [2]", "0 [2 1]", "1 [a 2]", "3 [a 1 2]"}, got)
			continue
		}
		require.Equal(t, want[5:], got, filter)
	}
}

// TestFiltersAreDivided checks that conditions on training columns alone are applied
// before the joins, and the others after them.
//
// spec: resolve-38
func TestFiltersAreDivided(t *testing.T) {
	t.Parallel()
	tables, files := days([]int64{1, 2, 3}, []int64{1})
	tables[0].Fields = append(tables[0].Fields, catalog.Field{ID: 3, Name: "score", Type: arrow.PrimitiveTypes.Int32})
	left, over := entry(), entry()
	over.Name, over.Join, over.Columns = "over", rule.Overlay, []dataset.Column{{Column: "age", Name: "score"}}
	d := homefeed(left, over)
	d.Training.Filter = dataset.MustFilter("day > 0")
	tables, files.Staging = append(tables, tables[1]), append(files.Staging, files.Staging[0])
	p, err := joined(d, tables, files, dataset.Query{Rows: dataset.Rows{Filter: dataset.MustFilter("day < 3 AND (age > 1 OR day = 1) AND score IS NOT NULL")}})
	require.NoError(t, err)
	require.Equal(t, "day < 3 AND day > 0", p.Filter.String())
	require.Equal(t, "score IS NOT NULL AND (age > 1 OR day = 1)", p.PostJoin.String())
	var names []string
	for _, o := range p.PostJoinColumns {
		names = append(names, o.Name)
	}
	require.Equal(t, []string{"day", "score", "age"}, names)
	require.Equal(t, "score IS NOT NULL AND day < 3 AND (age > 1 OR day = 1)", p.Rows.Filter.String())
	require.Equal(t, 2, p.Pruned.Splits, "day 3")
	require.NotEmpty(t, p.Inexact)

	p, err = joined(homefeed(entry()), tables[:2], files, dataset.Query{Rows: dataset.Rows{Filter: dataset.MustFilter("age = 1")}})
	require.NoError(t, err)
	require.Nil(t, p.Filter)
	require.Contains(t, p.Inexact, "age = 1")
	require.Len(t, p.Splits, 6, "it prunes nothing")
	_, err = joined(homefeed(entry()), tables[:2], files, dataset.Query{Rows: dataset.Rows{Filter: dataset.MustFilter("agee = 1")}})
	require.Equal(t, "age", fault.As(err).Faults[0].Nearest)
}

// spec: resolve-40, order-21
func TestSamplesPruneBuckets(t *testing.T) {
	t.Parallel()
	table := training(16)
	var files []catalog.File
	for b := range int64(16) {
		files = append(files, file(fmt.Sprint("f", b), int64(1), b, 10, 1))
	}
	whole := build(t, table, files, dataset.Query{})
	half := build(t, table, files, dataset.Query{Rows: dataset.Rows{Sample: &dataset.Sample{Hash: &dataset.HashRange{To: 0.125}, Rate: 1}}})
	require.Equal(t, []int{0, 8}, buckets(half))
	require.Equal(t, plan.Pruned{Splits: 14, Files: 14, Rows: 140}, half.Pruned)
	rest := build(t, table, files, dataset.Query{Rows: dataset.Rows{Sample: &dataset.Sample{Hash: &dataset.HashRange{From: 0.125}, Rate: 1}}})
	require.Len(t, rest.Splits, 14)
	require.NotEqual(t, whole.ID, half.ID)
	require.JSONEq(t, `{"hash":[0,0.125]}`, half.Cursor().Sample.Canonical())
	require.Empty(t, whole.Cursor().Sample)
	require.NotEmpty(t, half.Inexact)
	source := half.Training(half.Lanes[0].Ranges[0])
	require.Equal(t, []string{"request_id"}, source.Sample.Columns)
	require.Equal(t, "request_id", source.Checked[0].Name, "buckets are relied on")
	lots := build(t, table, files, dataset.Query{Rows: dataset.Rows{Sample: &dataset.Sample{Rate: 0.5, Where: dataset.MustFilter("day = 1")}}})
	require.Len(t, lots.Splits, 16)
	require.Equal(t, "day = 1", lots.Sample.Where.String())
	relation, err := resolve.Bind(dataset.Dataset{Name: "d", Training: dataset.Training{Table: table.Name}}, table, nil)
	require.NoError(t, err)
	for _, bad := range []*dataset.Sample{{Rate: 0.5, Where: dataset.MustFilter("nope = 1")}, {Rate: 1, Hash: &dataset.HashRange{To: 0.5}}} {
		_, err = plan.Bind(relation, dataset.Query{Rows: dataset.Rows{Sample: bad}}.Defaults().Rows)
		require.Equal(t, fault.Invalid, fault.KindOf(err))
		require.True(t, strings.HasPrefix(fault.As(err).Faults[0].Field, "sample."))
	}
}

// TestDistinctKeepsBucketsWhole checks that neither splits nor lanes divide buckets.
//
// spec: order-20
func TestDistinctKeepsBucketsWhole(t *testing.T) {
	t.Parallel()
	table := training(2)
	files := []catalog.File{
		file("a", int64(1), int64(0), 2*plan.SplitRows, 1), file("b", int64(1), int64(1), 100, 1), file("c", int64(1), int64(0), 50, 2),
		file("d", int64(2), int64(0), 10, 2), file("e", int64(2), int64(1), 70, 2),
	}
	d := homefeed()
	d.Training.Distinct = &dataset.Distinct{By: []string{"request_id"}, Scope: dataset.ScopePartition}
	p, err := joined(d, []*catalog.Table{table}, plan.Files{Training: plan.Listing{Files: files}}, dataset.Query{Rows: dataset.Rows{Lanes: 2}})
	require.NoError(t, err)
	require.Len(t, p.Splits, 4)
	require.Len(t, p.Splits[0].Files, 2)
	require.Equal(t, []plan.Lane{
		{Ranges: []plan.Range{{Split: 0, To: 2*plan.SplitRows + 50}}, Rows: 2*plan.SplitRows + 50},
		{Ranges: []plan.Range{{Split: 1, To: 100}, {Split: 2, To: 10}, {Split: 3, To: 70}}, Rows: 180},
	}, p.Lanes)
	require.Contains(t, p.Inexact, "distinct")
}

// spec: resolve-41
func TestDistinctIsRefusedIfRepeatedRowsMaySpanSplits(t *testing.T) {
	t.Parallel()
	bucket, day := partitioned("b", 1, catalog.Bucket, 2), partitioned("day", 2, catalog.Identity, 0)
	for name, c := range map[string]struct {
		specs   map[int]catalog.Spec
		by      []string
		message string // "": not refused
	}{
		"bucketed":              {map[int]catalog.Spec{0: {bucket}}, []string{"request_id"}, ""},
		"all fields are by":     {map[int]catalog.Spec{0: {bucket, day}}, []string{"day", "request_id"}, ""},
		"days part equal rows":  {map[int]catalog.Spec{0: {bucket, day}}, []string{"request_id"}, "several partitions of day"},
		"another bucket":        {map[int]catalog.Spec{0: {bucket}}, []string{"day"}, "several partitions of b"},
		"no bucket":             {map[int]catalog.Spec{0: {day}}, []string{"day"}, "is not bucketed by any of [day]"},
		"files of several kind": {map[int]catalog.Spec{0: {bucket}, 1: {bucket}}, []string{"request_id"}, "specs 0 and 1"},
	} {
		table := training(2)
		table.Specs = c.specs
		var files []catalog.File
		for spec := range len(c.specs) {
			files = append(files, catalog.File{Location: strconv.Itoa(spec), Spec: spec, Rows: 1, Partition: make([]any, len(c.specs[spec]))})
		}
		d := homefeed()
		d.Training.Distinct = &dataset.Distinct{By: c.by}
		_, err := joined(d, []*catalog.Table{table}, plan.Files{Training: plan.Listing{Files: files}}, dataset.Query{})
		if c.message == "" {
			require.NoError(t, err, name)
			continue
		}
		require.ErrorContains(t, err, c.message, name)
		require.Contains(t, fault.As(err).Remedy, "scope: partition", name)
		d.Training.Distinct.Scope = dataset.ScopePartition
		_, err = joined(d, []*catalog.Table{table}, plan.Files{Training: plan.Listing{Files: files}}, dataset.Query{})
		require.NoError(t, err, name)
	}
}

// overlapping returns a bucketed table and one whose newest file is not bucketed: every
// training bucket needs that file.
func overlapping(bytes int64) ([]*catalog.Table, plan.Files) {
	t := training(8)
	s := history(map[int]catalog.Spec{0: {partitioned("b", 1, catalog.Bucket, 8)}, 1: nil})
	files := plan.Files{Staging: make([]plan.Listing, 1)}
	for b := range int64(8) {
		files.Training.Files = append(files.Training.Files, file(fmt.Sprint("t", b), int64(1), b, 100, 1))
		files.Staging[0].Files = append(files.Staging[0].Files, staged(fmt.Sprint("s", b), 0, bytes, b))
	}
	files.Staging[0].Files = append(files.Staging[0].Files, staged("fresh", 1, 8*bytes))
	return []*catalog.Table{t, s}, files
}

// spec: resolve-24
func TestAmplificationIsLimited(t *testing.T) {
	t.Parallel()
	const mib = 1 << 20
	tables, files := overlapping(mib)
	p, err := joined(homefeed(entry()), tables, files, dataset.Query{})
	require.NoError(t, err)
	require.True(t, p.Staging[0].Merged)
	require.Len(t, p.Staging[0].Groups, 1)
	require.Len(t, p.Staging[0].Groups[0].Files, 9)
	require.InDelta(t, 1, p.StagingUse(0).Amplification(), 0)

	wide := entry()
	wide.MaxAmplification = 5
	p, err = joined(homefeed(wide), tables, files, dataset.Query{})
	require.NoError(t, err)
	require.False(t, p.Staging[0].Merged)
	require.Len(t, p.Staging[0].Groups, 8)
	require.InDelta(t, 4.5, p.StagingUse(0).Amplification(), 0)

	tables, files = overlapping(5 * mib)
	_, err = joined(homefeed(entry()), tables, files, dataset.Query{})
	require.Equal(t, fault.Invalid, fault.KindOf(err))
	require.ErrorContains(t, err, "4.5 bytes would be read for each byte stored, the limit is 4")
	require.Equal(t, "staging[0].max_amplification", fault.As(err).Faults[0].Field)
	require.Contains(t, fault.As(err).Remedy, "ALTER TABLE features.history ADD PARTITION FIELD bucket(8, req); CALL system.rewrite_data_files(")
	require.Contains(t, fault.As(err).Remedy, "align")

	p, err = joined(homefeed(entry()), tables, plan.Files{Training: plan.Listing{Files: files.Training.Files[:4]}, Staging: files.Staging}, dataset.Query{})
	require.NoError(t, err, "four of the buckets read less")
	require.Len(t, p.Staging[0].Groups, 4)
}

// TestMergedFileGroupsKeepPartitionsApart checks that aligned partitions share no
// files.
//
// spec: resolve-24
func TestMergedFileGroupsKeepPartitionsApart(t *testing.T) {
	t.Parallel()
	tables, files := days([]int64{1, 2}, []int64{1, 2})
	tables[1].Specs[1] = catalog.Spec{partitioned("day", 2, catalog.Identity, 0)}
	for day := range int64(2) {
		files.Staging[0].Files = append(files.Staging[0].Files, staged(fmt.Sprint("fresh", day+1), 1, 9000, day+1))
	}
	tables[1].Specs[0][1].Transform.N = 2
	files.Staging[0].Files = append(files.Staging[0].Files[:2], append(files.Staging[0].Files[3:5], files.Staging[0].Files[6:]...)...)
	e := entry()
	e.Align, e.MaxAmplification = &dataset.Align{Training: "day", Staging: "day", Rule: dataset.AlignSame}, 1
	p, err := joined(homefeed(e), tables, files, dataset.Query{})
	require.NoError(t, err)
	require.True(t, p.Staging[0].Merged)
	require.Len(t, p.Staging[0].Groups, 2)
	for _, s := range p.Splits {
		source := p.Group(0, s.Groups[0])
		require.Len(t, source.Files, 3)
		for _, f := range source.Files {
			require.Equal(t, s.Partition[0], f.File.Partition[0])
		}
	}
}

// TestKeysOfEverySpecAreChecked checks that keys are checked even if other specs do not
// bucket them.
func TestKeysOfEverySpecAreChecked(t *testing.T) {
	t.Parallel()
	tables, files := mixed()
	p, err := joined(homefeed(entry()), tables, files, dataset.Query{})
	require.NoError(t, err)
	require.Equal(t, tables[0].Fields[:1], p.Training(p.Lanes[0].Ranges[0]).Checked)
	require.Equal(t, tables[1].Fields[:1], p.Group(0, 0).Checked)
	require.Empty(t, p.Group(0, resolve.NoGroup).Files)
}

// TestWindowsArePartOfThePlanID checks that plans differ if their rows are shuffled within
// different windows or by another unit, or if only one has batches of requests.
//
// spec: order-11
func TestWindowsArePartOfThePlanID(t *testing.T) {
	t.Parallel()
	table := training(2)
	files := []catalog.File{file("f0", 1, int64(0), 100, 1), file("f1", 1, int64(1), 100, 1)}
	seen := map[string]dataset.Query{}
	for _, q := range []dataset.Query{
		{Rows: dataset.Rows{Order: dataset.Shuffled, Shuffle: dataset.ShuffleSplits}},
		{Rows: dataset.Rows{Order: dataset.Shuffled, Shuffle: dataset.ShuffleRows, ShuffleWindow: 10}},
		{Rows: dataset.Rows{Order: dataset.Shuffled, Shuffle: dataset.ShuffleRows, ShuffleWindow: 20}},
		{Rows: dataset.Rows{Order: dataset.Shuffled, Shuffle: dataset.ShuffleRequests, ShuffleWindow: 10}},
		{Rows: dataset.Rows{Order: dataset.Shuffled, Shuffle: dataset.ShuffleRequests, ShuffleWindow: 20}},
		{Rows: dataset.Rows{Order: dataset.Shuffled, Shuffle: dataset.ShuffleRequests, ShuffleWindow: 10}, Reading: dataset.Reading{BatchRequests: 4}},
		{Rows: dataset.Rows{Order: dataset.Shuffled, Shuffle: dataset.ShuffleRequests, ShuffleWindow: 20}, Reading: dataset.Reading{BatchRequests: 4}},
	} {
		id := build(t, table, files, q).ID
		require.NotContains(t, seen, id, "%+v", q)
		seen[id] = q
	}
}
