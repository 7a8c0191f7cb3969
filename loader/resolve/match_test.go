package resolve_test

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/expr"
	"github.com/penstock/penstock/joiner/rule"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/resolve"
)

// tables are two tables whose files one staging entry matches.
type tables struct {
	training, staging           *catalog.Table
	trainingFiles, stagingFiles []catalog.File
	entry                       dataset.Staging
}

func (s tables) relation(t *testing.T) *resolve.Relation {
	t.Helper()
	d := dataset.Dataset{Name: "d", Training: dataset.Training{Table: s.training.Name}, Staging: []dataset.Staging{s.entry}}.Defaults()
	r, err := resolve.Bind(d, s.training, []*catalog.Table{s.staging})
	require.NoError(t, err)
	return r
}

func (s tables) match(t *testing.T) (*resolve.Match, error) {
	t.Helper()
	return resolve.NewMatch(s.relation(t), 0, s.trainingFiles, s.stagingFiles, s.stagingFiles)
}

// names returns the staging files that match each training file; nil is NoGroup.
func (s tables) names(t *testing.T) [][]string {
	t.Helper()
	m, err := s.match(t)
	require.NoError(t, err)
	groups := make([]int, len(s.trainingFiles))
	for i := range s.trainingFiles {
		groups[i], _, err = m.Group(s.trainingFiles[i : i+1])
		require.NoError(t, err)
	}
	all := make([][]string, len(groups))
	for i, group := range groups {
		if group == resolve.NoGroup {
			continue
		}
		all[i] = []string{}
		for _, f := range m.Sets()[group] {
			all[i] = append(all[i], s.stagingFiles[f].Location)
		}
	}
	return all
}

// numbered returns a file per bucket of n, of a spec, and one of the null bucket.
func numbered(prefix string, spec, n int) []catalog.File {
	files := []catalog.File{{Location: prefix + "null", Spec: spec, Partition: []any{nil}}}
	for c := range n {
		files = append(files, catalog.File{Location: prefix + strconv.Itoa(c), Spec: spec, Partition: []any{int64(c)}})
	}
	return files
}

// TestFileGroups compares with the definition for all pairs of counts: b of n and c of m can
// share a key if and only if some hash is in both.
//
// spec: resolve-1, resolve-2, resolve-3
func TestFileGroups(t *testing.T) {
	t.Parallel()
	for n := 1; n <= 16; n++ {
		for m := 1; m <= 16; m++ {
			s := tables{training: trainingTable(n), staging: stagingTable(spec(1, m)), entry: entry()}
			s.trainingFiles, s.stagingFiles = numbered("", 0, n), numbered("", 0, m)
			shared := map[[2]int]bool{}
			for hash := range n * m {
				shared[[2]int{hash % n, hash % m}] = true
			}
			got := s.names(t)
			require.Nil(t, got[0], "the null bucket")
			for b := range n {
				var want []string
				for c := range m {
					if shared[[2]int{b, c}] {
						want = append(want, strconv.Itoa(c))
					}
				}
				require.Equal(t, want, got[b+1], "bucket %d of %d with %d", b, n, m)
			}
		}
	}
}

// spec: resolve-4
func TestFileGroupsOfMixedSpecs(t *testing.T) {
	t.Parallel()
	s := tables{training: trainingTable(12), staging: stagingTable(spec(1, 4), spec(1, 6)), entry: entry()}
	s.training.Specs[1] = spec(1, 8)
	s.trainingFiles = append(numbered("", 0, 12), numbered("", 1, 8)...)
	s.stagingFiles = append(numbered("four", 0, 4), numbered("six", 1, 6)...)
	got := s.names(t)
	for b := range 12 {
		require.Equal(t, []string{fmt.Sprint("four", b%4), fmt.Sprint("six", b%6)}, got[1+b])
	}
	for b := range 8 {
		var want []string
		for c := range 6 {
			if c%2 == b%2 {
				want = append(want, fmt.Sprint("six", c))
			}
		}
		require.Equal(t, append([]string{fmt.Sprint("four", b%4)}, want...), got[14+b])
	}
}

// between returns a file without partitions whose times are between two values.
func between(name string, low, high int64) catalog.File {
	return catalog.File{Location: name, Rows: 1, Ranges: map[int]expr.Range{
		2: {Lower: expr.Int(low), Upper: expr.Int(high), HasLower: true, HasUpper: true, Rows: 1},
	}}
}

// timed returns tables without partitions, joined by time with a tolerance of 10.
func timed(column arrow.DataType, unit time.Duration, training, staging []catalog.File) tables {
	fields := func(third string) []catalog.Field {
		return []catalog.Field{field(1, "id", arrow.PrimitiveTypes.Int64, true), field(2, "ts", column, false), field(3, third, column, false)}
	}
	tolerance := dataset.Lag{Time: 10 * unit}
	if column.ID() == arrow.INT64 {
		tolerance = dataset.Lag{Count: 10}
	}
	return tables{
		training: table("ml.t", fields("t"), nil), staging: table("ml.s", fields("s"), nil), trainingFiles: training, stagingFiles: staging,
		entry: dataset.Staging{
			Table: "ml.s", Key: []dataset.KeyPair{{Training: "id", Staging: "id"}}, Columns: []dataset.Column{},
			PointInTime: &dataset.PointInTime{Training: "ts", Staging: "ts", Tolerance: tolerance},
		},
	}
}

// TestTimesNarrowTheMatch: only files within the tolerance match, over all partitions; a file
// without statistics of its times always matches.
//
// spec: resolve-21, resolve-31
func TestTimesNarrowTheMatch(t *testing.T) {
	t.Parallel()
	staging := []catalog.File{
		between("old", 0, 89), between("edge", 0, 90), between("within", 95, 300), between("last", 120, 121), between("future", 121, 300),
		{Location: "unknown", Rows: 1},
		{Location: "null", Rows: 1, Ranges: map[int]expr.Range{2: {Nulls: 1, Rows: 1}}},
	}
	training := []catalog.File{between("a", 100, 120), {Location: "b", Rows: 1}, {Location: "c", Ranges: map[int]expr.Range{2: {Nulls: 1, Rows: 1}}}}
	for name, unit := range map[string]struct {
		column arrow.DataType
		unit   time.Duration
	}{
		"dates": {arrow.FixedWidthTypes.Date32, 24 * time.Hour}, "longs": {arrow.PrimitiveTypes.Int64, 1}, "timestamps": {timestamp(), time.Microsecond},
	} {
		got := timed(unit.column, unit.unit, training, staging).names(t)
		require.Equal(t, []string{"edge", "within", "last", "unknown"}, got[0], name)
		require.Equal(t, []string{"old", "edge", "within", "last", "future", "unknown"}, got[1], name)
		require.Nil(t, got[2], name)
		whole := timed(unit.column, unit.unit, training, staging)
		whole.entry.Strategy = rule.StrategyBroadcast
		got = whole.names(t)
		require.Equal(t, []string{"old", "edge", "within", "last", "future", "unknown"}, got[0], name)
	}
	nanos := timed(&arrow.TimestampType{Unit: arrow.Nanosecond}, time.Microsecond, training, staging).names(t)
	require.Subset(t, nanos[0], []string{"edge", "within", "last", "unknown"}, "bounds of nanoseconds are rounded")
	require.NotContains(t, nanos[0], "null")
}

// TestTimePartitionsNarrowTheMatch matches hours of the training table with days of the staging
// table, a day back.
//
// spec: resolve-31
func TestTimePartitionsNarrowTheMatch(t *testing.T) {
	t.Parallel()
	s := timed(timestamp(), 24*time.Hour/10, nil, nil)
	s.training.Specs[0] = catalog.Spec{{ID: 1000, Source: 2, Name: "h", Transform: catalog.Transform{Kind: catalog.Hour}}}
	s.staging.Specs[0] = catalog.Spec{{ID: 1000, Source: 2, Name: "d", Transform: catalog.Transform{Kind: catalog.Day}}}
	s.trainingFiles = []catalog.File{{Location: "hour", Partition: []any{int64(24*10 + 5)}}}
	for d := int64(7); d < 13; d++ {
		s.stagingFiles = append(s.stagingFiles, catalog.File{Location: strconv.Itoa(int(d)), Partition: []any{d}})
	}
	require.Equal(t, [][]string{{"9", "10"}}, s.names(t))
}

// TestRangesOfManyFilesAreTheirUnion tests a split of several files.
//
// spec: resolve-20, resolve-23
func TestRangesOfManyFilesAreTheirUnion(t *testing.T) {
	t.Parallel()
	s := tables{
		training: table("ml.t", []catalog.Field{field(2, "id", arrow.PrimitiveTypes.Int64, true)}, nil),
		staging:  table("ml.s", []catalog.Field{field(2, "id", arrow.PrimitiveTypes.Int64, true)}, nil),
		entry:    dataset.Staging{Table: "ml.s", Key: []dataset.KeyPair{{Training: "id", Staging: "id"}}},
		stagingFiles: []catalog.File{
			between("low", 0, 9), between("gap", 31, 49), between("high", 60, 70),
			{Location: "null", Ranges: map[int]expr.Range{2: {Nulls: 3, Rows: 3}}},
			{Location: "unknown"},
		},
	}
	m, err := s.match(t)
	require.NoError(t, err)
	filesFor := func(files ...catalog.File) []int32 {
		group, exists, err := m.Group(files)
		require.NoError(t, err)
		require.True(t, exists)
		if group == resolve.NoGroup {
			return nil
		}
		return m.Sets()[group]
	}
	require.Equal(t, []int32{4}, filesFor(between("", 10, 30)))
	require.Equal(t, []int32{0, 4}, filesFor(between("", 9, 30)))
	require.Equal(t, []int32{1, 2, 4}, filesFor(between("", 10, 31), between("", 50, 60)))
	require.Equal(t, []int32{0, 1, 2, 4}, filesFor(between("", 10, 31), catalog.File{}))
	require.Equal(t, []int32{4}, filesFor(between("", 10, 30), catalog.File{Ranges: map[int]expr.Range{2: {Nulls: 3, Rows: 3}}}), "nulls add nothing")
	require.Nil(t, filesFor(catalog.File{Ranges: map[int]expr.Range{2: {Nulls: 3, Rows: 3}}}))
	require.Len(t, m.Sets(), 4, "equal sets are one file group")
	require.True(t, m.Layout(0)[0].Statistics)
}

// TestRangesAreRequestedIfTheyHelp: keys that every layout buckets need none.
func TestRangesAreRequestedIfTheyHelp(t *testing.T) {
	t.Parallel()
	s := tables{training: trainingTable(4), staging: stagingTable(spec(1, 4)), entry: entry()}
	training, staging := s.relation(t).ValueRanges()
	require.Empty(t, training)
	require.Equal(t, [][]int{nil}, staging)
	s.staging.Specs[1] = nil
	training, staging = s.relation(t).ValueRanges()
	require.Equal(t, []int{1}, training)
	require.Equal(t, [][]int{{1}}, staging)
	for _, whole := range []rule.Strategy{rule.StrategyBroadcast, rule.StrategyCustom} {
		s.entry.Strategy = whole
		training, _ = s.relation(t).ValueRanges()
		require.Empty(t, training)
	}
}

// TestFileGroupsOfOneLayoutAreResidues: their numbers do not depend on which training buckets
// exist.
//
// spec: resolve-22
func TestFileGroupsOfOneLayoutAreResidues(t *testing.T) {
	t.Parallel()
	s := tables{training: trainingTable(8), staging: stagingTable(spec(1, 12)), entry: entry()}
	s.trainingFiles, s.stagingFiles = numbered("", 0, 8)[6:], numbered("", 0, 12)
	m, err := s.match(t)
	require.NoError(t, err)
	for i, want := range []int{1, 2, 3} {
		group, _, err := m.Group(s.trainingFiles[i : i+1])
		require.NoError(t, err)
		require.Equal(t, want, group)
	}
	require.Len(t, m.Sets(), 4)
}

// TestBroadcastIsOneFileGroup: only null buckets, which match nothing, are excluded. A custom
// strategy may match keys that are not equal, so the same holds for it.
//
// spec: resolve-21
func TestBroadcastIsOneFileGroup(t *testing.T) {
	t.Parallel()
	s := tables{training: trainingTable(2), staging: stagingTable(spec(1, 2)), entry: entry()}
	s.trainingFiles, s.stagingFiles = numbered("", 0, 2), numbered("", 0, 2)
	for _, whole := range []rule.Strategy{rule.StrategyBroadcast, rule.StrategyCustom} {
		s.entry.Strategy = whole
		require.Equal(t, [][]string{nil, {"0", "1"}, {"0", "1"}}, s.names(t))
	}
}
