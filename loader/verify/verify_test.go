package verify_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/dataset/datasettest"
	"github.com/penstock/penstock/loader/plan"
	"github.com/penstock/penstock/loader/verify"
)

// TestReport compares the text for people, and the JSON for programs.
//
// spec: join-114
func TestReport(t *testing.T) {
	t.Parallel()
	w := everything(t)
	damaged := fault.New(fault.Corrupt, "page 3 does not match its checksum")
	w.broken(damaged, "mem:///f.item/00013.parquet")
	v := w.verify(dataset.Query{})
	require.False(t, v.Clean())
	golden(t, "report.txt", v.String())
	text, err := json.MarshalIndent(v, "", " ")
	require.NoError(t, err)
	golden(t, "report.json", string(text)+"\n")
	var back loader.Verification
	require.NoError(t, json.Unmarshal(text, &back))
	require.Equal(t, v, &back)
}

// TestVerifyReadsTheFiles rather than what is cached of them, which could hide damage.
//
// spec: cache-8
func TestVerifyReadsTheFiles(t *testing.T) {
	t.Parallel()
	w := everything(t)
	scans := 0
	w.options.Scan = func(ctx context.Context, s plan.Source, columns []catalog.Field) (loader.Rows, error) {
		scans++
		if !s.Cache.Off() {
			t.Errorf("%s is read with the cache", s.Files[0].File.Location)
		}
		return w.Scan(ctx, s, columns)
	}
	w.verify(dataset.Query{})
	require.Positive(t, scans)
}

func TestClean(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.table("ml.train", "id:long", "bucket(4,id)")
	w.table("f.user", "id:int", "bucket(6,id)")
	w.add("ml.train", 0, "1", "2", "3", "3", "4")
	w.add("f.user", 0, "1", "2", "3", "4", "5")
	w.dataset(`{training: {table: ml.train}, key: [id], staging: [{table: f.user, missing: error, min_match: 1}]}`)
	v := w.verify(dataset.Query{})
	require.True(t, v.Clean(), "%s", v)
	golden(t, "clean.txt", v.String())
	require.InDelta(t, 1, join(v).MatchRate, 0)
	require.EqualValues(t, 1, join(v).OrphanKeys)

	empty := w.verify(dataset.Query{Rows: dataset.Rows{Filter: datasettest.Filter("id > 100")}})
	require.True(t, empty.Clean(), "%s", empty)
	require.InDelta(t, 1, join(empty).MatchRate, 0)
	require.Zero(t, join(empty).TrainingRows)
	require.EqualValues(t, 5, join(empty).OrphanKeys)
	require.Positive(t, empty.Tables[0].LeftOut)
}

// TestRulesDecideWhatIsFound: the same tables, with different rules.
func TestRulesDecideWhatIsFound(t *testing.T) {
	t.Parallel()
	for rule, want := range map[string][]verify.Kind{
		"join: left":                      {verify.Duplicates},
		"duplicates: first":               nil,
		"duplicates: all":                 nil,
		"join: semi":                      nil,
		"join: anti, min_match: 1":        {verify.MatchRate},
		"join: inner, min_match: 0.75":    {verify.Duplicates},
		"join: left, min_match: 0.76":     {verify.Duplicates, verify.MatchRate},
		"missing: error":                  {verify.Duplicates, verify.Missing},
		"filter: 'v = 1'":                 nil,
		"filter: 'v = 1', missing: error": {verify.Missing},
	} {
		w := newWorld(t)
		w.table("ml.train", "id:long", "bucket(4,id)")
		w.table("f.user", "id:int v:int", "bucket(6,id)")
		w.add("ml.train", 0, "1", "2", "3", "4")
		w.add("f.user", 0, "1 1", "2 1", "2 2", "3 1", "5 1")
		w.dataset(`{training: {table: ml.train}, key: [id], staging: [{table: f.user, ` + rule + `}]}`)
		require.Equal(t, want, kinds(w.verify(dataset.Query{})), rule)
	}
}

// TestMisplacedKeysAreAllFound: every file with keys of another bucket is a finding, also one
// that no split reads because of its wrong bucket.
func TestMisplacedKeysAreAllFound(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.table("ml.train", "id:long", "bucket(4,id)")
	w.table("f.user", "id:long", "bucket(4,id)", "bucket(2,id)")
	w.add("ml.train", 0, "1", "1")
	w.lie("f.user", 0, []any{int64(3)}, "1", "2", "3", "4", "5", "6", "7", "8", "-")
	w.lie("f.user", 1, []any{nil}, "9")
	w.add("f.user", 1, "10")
	w.dataset(`{training: {table: ml.train}, key: [id], staging: [{table: f.user}]}`)
	v := w.verify(dataset.Query{})
	require.Equal(t, []verify.Kind{verify.Layout, verify.Layout, verify.FewMatches}, kinds(v))
	require.Contains(t, v.Findings[2].Message, "both tables have equal keys, but in other buckets or partitions")
	for _, f := range v.Findings {
		require.Equal(t, "user", f.Table)
	}
	wrong := map[string]int64{}
	for _, f := range v.Tables[1].Files {
		require.True(t, f.Bucketed)
		wrong[f.File] = f.Wrong
	}
	require.Equal(t, map[string]int64{v.Findings[0].File: wrong[v.Findings[0].File], v.Findings[1].File: 1, v.Tables[1].Files[2].File: 0}, wrong)
	require.Greater(t, wrong[v.Findings[0].File], int64(4))
	require.Contains(t, v.Findings[1].Message, "row 0 has id = 9, which belongs to bucket ")
	require.Contains(t, v.Findings[1].Message, " of 2, but the manifest says bucket null; rewrite the file")
}

// TestTimesDecide: with a time rule, several rows of a key are only duplicates if they have the
// same time, and only rows within the tolerance match.
func TestTimesDecide(t *testing.T) {
	t.Parallel()
	for rule, want := range map[string]verify.Join{
		"tolerance: 10":                  {Matched: 4, Missing: 4, DuplicatesAsked: 1},
		"tolerance: 10, exact: false":    {Matched: 4, Missing: 4, DuplicatesAsked: 1},
		"tolerance: 9, exact: false":     {Matched: 2, Missing: 6, DuplicatesAsked: 1},
		"tolerance: 0":                   {Matched: 1, Missing: 7, DuplicatesAsked: 1},
		"tolerance: 9223372036854775807": {Matched: 5, Missing: 3, DuplicatesAsked: 1},
	} {
		w := newWorld(t)
		w.table("ml.train", "id:long ts:long", "bucket(4,id)")
		w.table("f.event", "id:long ts:long", "bucket(4,id)")
		w.add("ml.train", 0, "1 99", "1 100", "1 101", "1 115", "1 200", "2 100", "- 100", "1 -")
		w.add("f.event", 0, "1 90", "1 100", "1 100", "1 105", "3 100", "1 -", "- 100")
		w.dataset(`{training: {table: ml.train}, key: [id], staging: [{table: f.event, prefix: e_, duplicates: first, point_in_time: {training: ts, ` + rule + `}}]}`)
		v := w.verify(dataset.Query{})
		require.True(t, v.Clean())
		j := join(v)
		require.Equal(t, []int64{want.Matched, want.Missing, 1}, []int64{j.Matched, j.Missing, j.NullKeys}, rule)
		require.Equal(t, []int64{8, 7, 2, 2}, []int64{j.TrainingRows, j.Rows, j.NullRows, j.Keys}, rule)
		require.Equal(t, []int64{1, 1, want.DuplicatesAsked}, []int64{j.DuplicateKeys, j.SurplusRows, j.DuplicatesAsked}, rule)
		require.Equal(t, []int64{1, 1}, []int64{j.OrphanKeys, j.OrphanRows}, rule)
	}
}

// TestAlignedPartitionsAreSeparate: a key of several aligned partitions is not a duplicate, and
// matches only in its own. Matches are counted by day.
//
// spec: join-116
func TestAlignedPartitionsAreSeparate(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.table("ml.train", "id:long day:date", "day bucket(4,id)")
	w.table("f.user", "id:long day:date", "day bucket(2,id)")
	w.add("ml.train", 0, "1 2026-01-02", "2 2026-01-02", "1 2026-01-03", "1 2026-01-05")
	w.add("f.user", 0, "1 2026-01-01", "1 2026-01-02", "2 2026-01-02", "1 2026-01-03", "1 2025-01-01", "1 2025-01-02", "1 2025-01-02")
	w.dataset(`{training: {table: ml.train}, key: [id], staging: [{table: f.user, prefix: u_, align: {training: day, lag: 1d}}]}`)
	v := w.verify(dataset.Query{})
	j := join(v)
	require.Equal(t, []int64{4, 2, 2}, []int64{j.TrainingRows, j.Matched, j.Missing})
	require.Equal(t, "day", j.Cells.Partition)
	byDay := map[string][2]int64{}
	for i, part := range j.Cells.Parts {
		of := byDay[part.From]
		for b := range j.Cells.Buckets {
			of[0], of[1] = of[0]+j.Cells.Rows[i][b], of[1]+j.Cells.Matched[i][b]
		}
		byDay[part.From] = of
	}
	require.Equal(t, map[string][2]int64{"2026-01-02": {2, 1}, "2026-01-03": {1, 1}, "2026-01-05": {1, 0}}, byDay)
	require.Equal(t, []int64{1, 1, 0}, []int64{j.DuplicateKeys, j.SurplusRows, j.DuplicatesAsked}, "%s", v)
	require.Equal(t, []verify.Kind{verify.Duplicates}, kinds(v))
	require.True(t, v.Clean(), "no training row has the duplicate keys")
	require.Contains(t, v.String(), "no findings that break a stream or a rule\nworth knowing: 1 finding\n  duplicates, user\n")
	require.EqualValues(t, 4, j.OrphanKeys, "of the two days of 2025, of 2026-01-03, and key 2 of 2026-01-02: %s", v)
}

// TestDamagedFilesAreFindings, and the others are read.
func TestDamagedFilesAreFindings(t *testing.T) {
	t.Parallel()
	for _, kind := range []fault.Kind{fault.Corrupt, fault.Invalid} {
		w := everything(t)
		w.broken(fault.New(kind, "it is broken"), "mem:///ml.train/00001.parquet", "mem:///f.user/00006.parquet")
		v := w.verify(dataset.Query{})
		found := map[string]string{}
		unread := 0
		for _, f := range v.Findings {
			if f.Kind == verify.Unreadable {
				require.Empty(t, found[f.File], "once for each file")
				found[f.File] = f.Message
			}
		}
		for _, table := range v.Tables {
			for _, f := range table.Files {
				if f.Unread {
					require.Contains(t, found, f.File)
					unread++
				}
			}
		}
		require.Equal(t, map[string]string{
			"mem:///ml.train/00001.parquet": "it is broken", "mem:///f.user/00006.parquet": "it is broken",
		}, found)
		require.Equal(t, 2, unread)
	}
	for _, kind := range []fault.Kind{fault.Unavailable, fault.Expired, fault.NotFound} {
		w := everything(t)
		w.broken(fault.New(kind, "storage is away"), "mem:///f.user/00006.parquet")
		_, err := loader.New(w.options).Verify(context.Background(), loader.PlanRequest{Query: dataset.Query{Rows: dataset.Rows{Dataset: "d"}}}, nil)
		require.Equal(t, kind, fault.KindOf(err))
		require.ErrorContains(t, err, "verify staging[0] user: storage is away")
	}
}

// TestATableOfDamagedFilesIsNotEmpty: rows of damaged files may have the keys that have no match.
func TestATableOfDamagedFilesIsNotEmpty(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.table("ml.train", "id:long", "")
	w.table("f.user", "id:long v:long", "")
	var rows []string
	for id := range 100 {
		rows = append(rows, strconv.Itoa(id))
	}
	w.add("ml.train", 0, rows...)
	w.add("f.user", 0, "1000 1")
	w.dataset("{training: {table: ml.train}, key: [id], staging: [{table: f.user}]}")
	staged := w.verify(dataset.Query{}).Tables[1].Files
	require.Len(t, staged, 1)
	w.broken(fault.New(fault.Corrupt, "it is broken"), staged[0].File)
	v := w.verify(dataset.Query{})
	require.Equal(t, []verify.Kind{verify.Unreadable, verify.FewMatches}, kinds(v))
	require.Contains(t, v.Findings[1].Message, "(0%), without the rows of the files that cannot be read")
}

func TestEndings(t *testing.T) {
	t.Parallel()
	w := everything(t)
	_, err := loader.New(w.options).Verify(context.Background(), loader.PlanRequest{Query: dataset.Query{Rows: dataset.Rows{Dataset: "e"}}}, nil)
	require.Equal(t, fault.NotFound, fault.KindOf(err))
	ctx, cancel := context.WithCancel(context.Background())
	w.options.Scan = func(ctx context.Context, s plan.Source, columns []catalog.Field) (loader.Rows, error) {
		cancel()
		return w.Scan(ctx, s, columns)
	}
	_, err = loader.New(w.options).Verify(ctx, loader.PlanRequest{Query: dataset.Query{Rows: dataset.Rows{Dataset: "d"}}}, nil)
	require.ErrorIs(t, err, context.Canceled)
}

// TestLittleMemory: several passes find the same as one, and keys that do not fit in any number
// of passes are Exhausted.
func TestLittleMemory(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.table("ml.train", "id:long", "bucket(2,id)")
	w.table("f.user", "id:long", "")
	var training, staging []string
	digits := func(n int) string {
		return strings.Repeat(string(rune('0'+n%10)), 1) + strings.Repeat("7", n/10%5) + string(rune('1'+n/50%9))
	}
	for i := range 20_000 {
		staging = append(staging, digits(i)+digits(i/450))
		if i%3 == 0 {
			training = append(training, digits(i)+digits(i/300))
		}
	}
	w.add("ml.train", 0, training...)
	w.add("f.user", 0, staging...)
	w.BatchRows = 1000
	w.dataset(`{training: {table: ml.train}, key: [id], staging: [{table: f.user}]}`)
	want := w.verify(dataset.Query{})
	require.Equal(t, 1, join(want).Passes)
	require.Greater(t, join(want).Keys, int64(4*firstCapacity))

	w.options.Budget = budget.New(2 << 20)
	got := w.verify(dataset.Query{})
	require.Greater(t, join(got).Passes, 1)
	require.LessOrEqual(t, w.options.Budget.Peak(), int64(2<<20))
	require.Zero(t, w.options.Budget.Used())
	join(got).Passes = 1
	require.Equal(t, want, got)

	w.options.Budget = budget.New(1000)
	_, err := loader.New(w.options).Verify(context.Background(), loader.PlanRequest{Query: dataset.Query{Rows: dataset.Rows{Dataset: "d"}}}, nil)
	require.Equal(t, fault.Exhausted, fault.KindOf(err))
	require.ErrorContains(t, err, "the keys of staging table user")
	require.Zero(t, w.options.Budget.Used())
}

// firstCapacity is the number of keys for which memory is reserved at first.
const firstCapacity = 1 << 12

// unsummed are rows of a file that reports whether its pages have checksums.
type unsummed struct {
	loader.Rows
	without bool
}

func (u unsummed) WithoutChecksum() bool { return u.without }

// TestFilesWithoutChecksums are one finding, which breaks nothing.
//
// spec: join-99
func TestFilesWithoutChecksums(t *testing.T) {
	t.Parallel()
	w := everything(t)
	without := func(files ...string) {
		w.options.Scan = func(ctx context.Context, s plan.Source, columns []catalog.Field) (loader.Rows, error) {
			rows, err := w.Scan(ctx, s, columns)
			return unsummed{rows, slices.Contains(files, s.Files[0].File.Location)}, err
		}
	}
	without()
	before := w.verify(dataset.Query{})
	require.NotContains(t, before.String(), "checksum")
	text, err := json.Marshal(before)
	require.NoError(t, err)
	require.NotContains(t, string(text), "checksum", "the JSON is what it was")

	var training, user []string
	for _, f := range before.Tables[0].Files {
		training = append(training, f.File)
	}
	for _, f := range before.Tables[1].Files {
		user = append(user, f.File)
	}
	without(append(user, training[0])...)
	after := w.verify(dataset.Query{})
	require.Greater(t, len(user), 3)
	last := len(after.Findings) - 1
	require.Equal(t, before.Findings, after.Findings[:last])
	require.Equal(t, verify.Finding{
		Kind: verify.Checksums, Grade: verify.Note,
		Message: fmt.Sprintf("pages without a checksum in %d of 13 files (training: 1, user: %d), where damage may go unnoticed", 1+len(user), len(user)),
	}, after.Findings[last])
	require.Equal(t, 1, strings.Count(after.String(), "checksum\n")+strings.Count(after.String(), "a checksum in"))
	for i, table := range after.Tables {
		for _, f := range table.Files {
			require.Equal(t, i == 1 || f.File == training[0], f.NoChecksum, f.File)
		}
	}
	text, err = json.Marshal(after)
	require.NoError(t, err)
	require.Equal(t, 1+len(user), strings.Count(string(text), `"no_checksum":true`))
}

// asked is a catalog that records of which tables all files were listed.
type asked struct {
	catalog.Catalog
	all *sync.Map // by name
}

func (a asked) Files(ctx context.Context, t *catalog.Table, columns []int, bounds []int) ([]catalog.File, error) {
	a.all.Store(t.Name, true)
	return a.Catalog.Files(ctx, t, columns, bounds)
}

// TestVerifySince reads only the training files that were appended since: older ones may be
// unreadable.
//
// spec: since-7
func TestVerifySince(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.table("ml.train", "id:long item:long", "bucket(2,id)")
	w.table("features.f", "id:long v:long", "bucket(2,id)")
	w.add("ml.train", 0, "1 1", "2 2", "3 3")
	w.add("features.f", 0, "1 1", "2 2", "3 3", "4 4")
	before, err := w.Table(t.Context(), "ml.train", dataset.Ref{})
	require.NoError(t, err)
	w.add("ml.train", 0, "4 4")
	w.dataset("{training: {table: ml.train}, key: [id], staging: [{table: features.f}]}")
	catalogs := asked{w, new(sync.Map)}
	w.options.Catalog = catalogs
	since := w.verify(dataset.Query{Rows: dataset.Rows{Since: before.Pin.Snapshot}})
	require.Empty(t, since.Findings)
	require.Len(t, since.Tables[0].Files, 1)
	require.Equal(t, int64(1), since.Tables[0].Rows)
	_, older := catalogs.all.Load("ml.train")
	_, staging := catalogs.all.Load("features.f")
	require.Equal(t, []bool{false, true}, []bool{older, staging})
	require.Len(t, w.verify(dataset.Query{}).Tables[0].Files, 3)
}
