package plan_test

import (
	"fmt"
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
	"github.com/penstock/penstock/loader/dataset/datasettest"
	"github.com/penstock/penstock/loader/plan"
	"github.com/penstock/penstock/loader/plan/explain"
	"github.com/penstock/penstock/loader/plan/plantest"
	"github.com/penstock/penstock/loader/resolve"
)

// TestPartitionsWithoutAnAlignedOneAreCounted checks that training partitions without an
// aligned staging partition are counted with their rows.
//
// spec: resolve-30
func TestPartitionsWithoutAnAlignedOneAreCounted(t *testing.T) {
	t.Parallel()
	tables, files := plantest.Days([]int64{1, 2, 3, 5}, []int64{1, 3})
	e := plantest.Entry()
	e.Align = &dataset.Align{Training: "day", Staging: "day", Rule: dataset.AlignLag, Lag: dataset.Lag{Count: 1}}
	p, err := plantest.Joined(plantest.Homefeed(e), tables, files, dataset.Query{})
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
	require.Contains(t, explain.Text(p, dataset.Query{}, nil), "training partitions without one: 3, with 600 rows")
	e.Align.Lag.Count = 2
	other, err := plantest.Joined(plantest.Homefeed(e), tables, files, dataset.Query{})
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
	table := plantest.Training(2)
	table.Fields = append(table.Fields, catalog.Field{ID: 3, Name: "region", Type: arrow.BinaryTypes.String})
	day, b := plantest.Partitioned("day", 2, catalog.Identity, 0), plantest.Partitioned("bucket", 1, catalog.Bucket, 2)
	region := plantest.Partitioned("region", 3, catalog.Identity, 0)
	table.Specs = map[int]catalog.Spec{0: {day, b}, 1: {region, day}, 2: {day}, 3: {region, b, day}, 4: {day, plantest.Partitioned("bucket", 1, catalog.Bucket, 4)}}
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
		for _, s := range build(t, table, files, dataset.Query{Rows: dataset.Rows{Filter: datasettest.Filter(filter)}}).Splits {
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
	tables, files := plantest.Days([]int64{1, 2, 3}, []int64{1})
	tables[0].Fields = append(tables[0].Fields, catalog.Field{ID: 3, Name: "score", Type: arrow.PrimitiveTypes.Int32})
	left, over := plantest.Entry(), plantest.Entry()
	over.Name, over.Join, over.Columns = "over", rule.Overlay, []dataset.Column{{Column: "age", Name: "score"}}
	d := plantest.Homefeed(left, over)
	d.Training.Filter = datasettest.Filter("day > 0")
	tables, files.Staging = append(tables, tables[1]), append(files.Staging, files.Staging[0])
	p, err := plantest.Joined(d, tables, files, dataset.Query{Rows: dataset.Rows{Filter: datasettest.Filter("day < 3 AND (age > 1 OR day = 1) AND score IS NOT NULL")}})
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

	p, err = plantest.Joined(plantest.Homefeed(plantest.Entry()), tables[:2], files, dataset.Query{Rows: dataset.Rows{Filter: datasettest.Filter("age = 1")}})
	require.NoError(t, err)
	require.Nil(t, p.Filter)
	require.Contains(t, p.Inexact, "age = 1")
	require.Len(t, p.Splits, 6, "it prunes nothing")
	_, err = plantest.Joined(plantest.Homefeed(plantest.Entry()), tables[:2], files, dataset.Query{Rows: dataset.Rows{Filter: datasettest.Filter("agee = 1")}})
	require.Equal(t, "age", fault.As(err).Faults[0].Nearest)
}

// spec: resolve-40, order-21
func TestSamplesPruneBuckets(t *testing.T) {
	t.Parallel()
	table := plantest.Training(16)
	var files []catalog.File
	for b := range int64(16) {
		files = append(files, plantest.File(fmt.Sprint("f", b), int64(1), b, 10, 1))
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
	lots := build(t, table, files, dataset.Query{Rows: dataset.Rows{Sample: &dataset.Sample{Rate: 0.5, Where: datasettest.Filter("day = 1")}}})
	require.Len(t, lots.Splits, 16)
	require.Equal(t, "day = 1", lots.Sample.Where.String())
	relation, err := resolve.Bind(dataset.Dataset{Name: "d", Training: dataset.Training{Table: table.Name}}, table, nil)
	require.NoError(t, err)
	for _, bad := range []*dataset.Sample{{Rate: 0.5, Where: datasettest.Filter("nope = 1")}, {Rate: 1, Hash: &dataset.HashRange{To: 0.5}}} {
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
	table := plantest.Training(2)
	files := []catalog.File{
		plantest.File("a", int64(1), int64(0), 2*plan.SplitRows, 1), plantest.File("b", int64(1), int64(1), 100, 1), plantest.File("c", int64(1), int64(0), 50, 2),
		plantest.File("d", int64(2), int64(0), 10, 2), plantest.File("e", int64(2), int64(1), 70, 2),
	}
	d := plantest.Homefeed()
	d.Training.Distinct = &dataset.Distinct{By: []string{"request_id"}, Scope: dataset.ScopePartition}
	p, err := plantest.Joined(d, []*catalog.Table{table}, plan.Files{Training: plan.Listing{Files: files}}, dataset.Query{Rows: dataset.Rows{Lanes: 2}})
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
	bucket, day := plantest.Partitioned("b", 1, catalog.Bucket, 2), plantest.Partitioned("day", 2, catalog.Identity, 0)
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
		table := plantest.Training(2)
		table.Specs = c.specs
		var files []catalog.File
		for spec := range len(c.specs) {
			files = append(files, catalog.File{Location: strconv.Itoa(spec), Spec: spec, Rows: 1, Partition: make([]any, len(c.specs[spec]))})
		}
		d := plantest.Homefeed()
		d.Training.Distinct = &dataset.Distinct{By: c.by}
		_, err := plantest.Joined(d, []*catalog.Table{table}, plan.Files{Training: plan.Listing{Files: files}}, dataset.Query{})
		if c.message == "" {
			require.NoError(t, err, name)
			continue
		}
		require.ErrorContains(t, err, c.message, name)
		require.Contains(t, fault.As(err).Remedy, "scope: partition", name)
		d.Training.Distinct.Scope = dataset.ScopePartition
		_, err = plantest.Joined(d, []*catalog.Table{table}, plan.Files{Training: plan.Listing{Files: files}}, dataset.Query{})
		require.NoError(t, err, name)
	}
}

// overlapping returns a bucketed table and one whose newest file is not bucketed: every
// training bucket needs that file.
func overlapping(bytes int64) ([]*catalog.Table, plan.Files) {
	t := plantest.Training(8)
	s := plantest.History(map[int]catalog.Spec{0: {plantest.Partitioned("b", 1, catalog.Bucket, 8)}, 1: nil})
	files := plan.Files{Staging: make([]plan.Listing, 1)}
	for b := range int64(8) {
		files.Training.Files = append(files.Training.Files, plantest.File(fmt.Sprint("t", b), int64(1), b, 100, 1))
		files.Staging[0].Files = append(files.Staging[0].Files, plantest.Staged(fmt.Sprint("s", b), 0, bytes, b))
	}
	files.Staging[0].Files = append(files.Staging[0].Files, plantest.Staged("fresh", 1, 8*bytes))
	return []*catalog.Table{t, s}, files
}

// spec: resolve-24
func TestAmplificationIsLimited(t *testing.T) {
	t.Parallel()
	const mib = 1 << 20
	tables, files := overlapping(mib)
	p, err := plantest.Joined(plantest.Homefeed(plantest.Entry()), tables, files, dataset.Query{})
	require.NoError(t, err)
	require.True(t, p.Staging[0].Merged)
	require.Len(t, p.Staging[0].Groups, 1)
	require.Len(t, p.Staging[0].Groups[0].Files, 9)
	require.InDelta(t, 1, p.StagingUse(0).Amplification(), 0)

	wide := plantest.Entry()
	wide.MaxAmplification = 5
	p, err = plantest.Joined(plantest.Homefeed(wide), tables, files, dataset.Query{})
	require.NoError(t, err)
	require.False(t, p.Staging[0].Merged)
	require.Len(t, p.Staging[0].Groups, 8)
	require.InDelta(t, 4.5, p.StagingUse(0).Amplification(), 0)

	tables, files = overlapping(5 * mib)
	_, err = plantest.Joined(plantest.Homefeed(plantest.Entry()), tables, files, dataset.Query{})
	require.Equal(t, fault.Invalid, fault.KindOf(err))
	require.ErrorContains(t, err, "4.5 bytes would be read for each byte stored, the limit is 4")
	require.Equal(t, "staging[0].max_amplification", fault.As(err).Faults[0].Field)
	require.Contains(t, fault.As(err).Remedy, "ALTER TABLE features.history ADD PARTITION FIELD bucket(8, req); CALL system.rewrite_data_files(")
	require.Contains(t, fault.As(err).Remedy, "align")

	p, err = plantest.Joined(plantest.Homefeed(plantest.Entry()), tables, plan.Files{Training: plan.Listing{Files: files.Training.Files[:4]}, Staging: files.Staging}, dataset.Query{})
	require.NoError(t, err, "four of the buckets read less")
	require.Len(t, p.Staging[0].Groups, 4)
}

// TestMergedFileGroupsKeepPartitionsApart checks that aligned partitions share no
// files.
//
// spec: resolve-24
func TestMergedFileGroupsKeepPartitionsApart(t *testing.T) {
	t.Parallel()
	tables, files := plantest.Days([]int64{1, 2}, []int64{1, 2})
	tables[1].Specs[1] = catalog.Spec{plantest.Partitioned("day", 2, catalog.Identity, 0)}
	for day := range int64(2) {
		files.Staging[0].Files = append(files.Staging[0].Files, plantest.Staged(fmt.Sprint("fresh", day+1), 1, 9000, day+1))
	}
	tables[1].Specs[0][1].Transform.N = 2
	files.Staging[0].Files = append(files.Staging[0].Files[:2], append(files.Staging[0].Files[3:5], files.Staging[0].Files[6:]...)...)
	e := plantest.Entry()
	e.Align, e.MaxAmplification = &dataset.Align{Training: "day", Staging: "day", Rule: dataset.AlignSame}, 1
	p, err := plantest.Joined(plantest.Homefeed(e), tables, files, dataset.Query{})
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
	tables, files := plantest.Mixed()
	p, err := plantest.Joined(plantest.Homefeed(plantest.Entry()), tables, files, dataset.Query{})
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
	table := plantest.Training(2)
	files := []catalog.File{plantest.File("f0", 1, int64(0), 100, 1), plantest.File("f1", 1, int64(1), 100, 1)}
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
