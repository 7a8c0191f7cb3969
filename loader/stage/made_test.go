package stage_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/catalog/commit"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/stage"
	"github.com/penstock/penstock/loader/stage/stagetest"
)

// once stages rows in JSON, without a token.
func once(t *testing.T, r *stagetest.Rig, request dataset.TableWrite, text string) stage.WriteResult {
	t.Helper()
	out, err := r.Stager.Stage(t.Context(), stage.CallOptions{}, request, stagetest.Rows(t, stagetest.Schema(), text))
	require.NoError(t, err)
	return out
}

// undone takes a change of main back.
func undone(t *testing.T, r *stagetest.Rig, made stage.WriteResult) {
	t.Helper()
	require.NoError(t, r.Tables.Undo(t.Context(), commit.Move{Table: stagetest.History, Ref: commit.Main, From: made.Parent, To: made.Snapshot}))
}

const (
	firstDay  = `[{"id": 1, "day": "2026-10-01", "items": [1, 2], "country": "CH"}, {"id": 2, "day": "2026-10-01", "items": null, "country": "DE"}]`
	secondDay = `[{"id": 3, "day": "2026-10-02", "items": [], "country": null}]`
)

// Appended rows are written once, as long as the branch has them.
//
// spec: stage-143, stage-145, stage-147, stage-148
func TestRepeatedRowsAreAppendedOnce(t *testing.T) {
	r := stagetest.New(t, stagetest.Unlimited, nil)
	r.Daily(t)
	request := dataset.TableWrite{Table: stagetest.History}
	first := once(t, r, request, firstDay)
	require.False(t, first.Existed)
	files := r.Parquet(t)
	again := once(t, r, request, firstDay)
	require.Equal(t, stage.WriteResult{Token: first.Token, Snapshot: first.Snapshot, Parent: first.Parent, Existed: true}, again)
	second := once(t, r, request, secondDay)
	require.Equal(t, first.Snapshot, second.Parent)
	require.Equal(t, first.Snapshot, once(t, r, request, firstDay).Snapshot, "others appended since")
	require.Len(t, r.Column(t, "", "id"), 3)

	named := request
	named.Token, named.Again = commit.NewToken(time.Now(), "named"), new(false)
	require.Equal(t, first.Snapshot, once(t, r, named, firstDay).Snapshot)
	named.Again = nil
	third := once(t, r, named, firstDay)
	require.False(t, third.Existed, "a token tells whether the call was made")
	require.Equal(t, third.Snapshot, once(t, r, named, secondDay).Snapshot, "a token holds for all rows")
	named = request
	named.Again = new(true)
	fourth := once(t, r, named, firstDay)
	require.Equal(t, third.Snapshot, fourth.Parent)
	require.Len(t, r.Column(t, "", "id"), 7)

	for _, made := range []stage.WriteResult{fourth, third} {
		undone(t, r, made)
	}
	require.True(t, once(t, r, request, secondDay).Existed)
	undone(t, r, second)
	require.False(t, once(t, r, request, secondDay).Existed, "undone rows are not in the branch")
	require.Len(t, r.Column(t, "", "id"), 3)
	require.Subset(t, r.Parquet(t), files)
}

// A call that names its rows is recognized by the name before it reads a row, whatever the rows are.
//
// spec: stage-184
func TestNamedRowsAreWrittenOnce(t *testing.T) {
	r := stagetest.New(t, stagetest.Unlimited, nil)
	r.Daily(t)
	request := dataset.TableWrite{Table: stagetest.History, RowsID: "sums of 7"}
	first := once(t, r, request, firstDay)
	require.False(t, first.Existed)
	again, err := r.Stager.Stage(t.Context(), stage.CallOptions{}, request, unread(t, stagetest.Schema()))
	require.NoError(t, err)
	require.Equal(t, stage.WriteResult{Token: first.Token, Snapshot: first.Snapshot, Parent: first.Parent, Existed: true}, again)

	for name, other := range map[string]dataset.TableWrite{
		"another id":   {RowsID: "sums of 8"},
		"no id":        {},
		"another mode": {RowsID: "sums of 7", Mode: dataset.WriteReplace, AllowShrink: true},
		"again":        {RowsID: "sums of 7", Again: new(true)},
		"a token":      {RowsID: "sums of 7", Token: "t"},
	} {
		other.Table = stagetest.History
		require.False(t, once(t, r, other, firstDay).Existed, name)
	}

	o := stage.CallOptions{OnlyKeys: func(context.Context, []arrow.Field) (stage.KeptKeys, error) { return evenKeys{new(int)}, nil }}
	request.OnlyKeysOf, request.RowsID = "clicks", "sums of 9"
	for i, text := range []string{firstDay, `[{"id": 4, "day": "2026-10-01"}]`} {
		out, err := r.Stager.Stage(t.Context(), o, request, stagetest.Rows(t, stagetest.Schema(), text))
		require.NoError(t, err)
		require.False(t, out.Existed, "kept rows %d depend on the keys, too", i)
	}
}

// After rows were removed, it is unknown whether a repeated append would repeat rows. The summary of a
// snapshot does not say from which partitions it removed rows.
//
// spec: stage-145
func TestRepeatedRowsAreRefusedAfterARemoval(t *testing.T) {
	for day, want := range map[string][]string{"2026-10-01": {"9", "1", "2", "3"}, "2026-10-02": {"9", "1", "2", "1", "2"}} {
		repeatAfterRemoval(t, day, want)
	}
}

// repeatAfterRemoval repeats an append after rows of a day were replaced, and then with again. It
// compares the ids in the table.
func repeatAfterRemoval(t *testing.T, day string, want []string) {
	t.Helper()
	r := stagetest.New(t, stagetest.Unlimited, nil)
	r.Daily(t)
	request := dataset.TableWrite{Table: stagetest.History}
	first := once(t, r, request, firstDay)
	once(t, r, request, secondDay)
	r.Stage(t, dataset.TableWrite{Table: stagetest.History, Mode: dataset.WriteReplace, AllowShrink: true}, stagetest.Schema(), `[{"id": 9, "day": "`+day+`"}]`)
	files := r.Parquet(t)
	_, err := r.Stager.Stage(t.Context(), stage.CallOptions{}, request, stagetest.Rows(t, stagetest.Schema(), firstDay))
	require.Equal(t, fault.Conflict, fault.KindOf(err))
	require.ErrorContains(t, err, "may have removed some of them")
	require.Contains(t, fault.As(err).Remedy, "--again")
	require.Equal(t, files, r.Parquet(t))
	request.Again = new(true)
	require.NotEqual(t, first.Snapshot, once(t, r, request, firstDay).Snapshot)
	request.Again = nil
	require.True(t, once(t, r, request, firstDay).Existed, "the latest of equal changes counts")
	require.ElementsMatch(t, want, r.Column(t, "", "id"))
}

// A replacement is made again if anything was committed since: afterward, the partitions have its rows alone.
//
// spec: stage-146
func TestRepeatedReplacementsAreMadeAgain(t *testing.T) {
	r := stagetest.New(t, stagetest.Unlimited, nil)
	r.Daily(t)
	request := dataset.TableWrite{Table: stagetest.History, Mode: dataset.WriteReplace}
	other := strings.ReplaceAll(firstDay, "CH", "IT")
	once(t, r, request, secondDay)
	a := once(t, r, request, firstDay)
	require.True(t, once(t, r, request, firstDay).Existed)
	b := once(t, r, request, other)
	require.False(t, b.Existed)
	c := once(t, r, request, firstDay)
	require.False(t, c.Existed, "another replacement came between")
	require.ElementsMatch(t, []string{"CH", "DE", array.NullValueStr}, r.Column(t, "", "country"))
	undone(t, r, c)
	undone(t, r, b)
	require.Equal(t, a.Snapshot, once(t, r, request, firstDay).Snapshot)

	appended := once(t, r, dataset.TableWrite{Table: stagetest.History}, firstDay)
	require.False(t, appended.Existed, "the mode counts")
	require.Len(t, r.Column(t, "", "id"), 5)
	require.False(t, once(t, r, request, firstDay).Existed, "rows were appended to the partition")
	require.ElementsMatch(t, []string{"1", "2", "3"}, r.Column(t, "", "id"))
}

// Batches, the types of batches and absent columns do not matter; values, names and their order do.
//
// spec: stage-144
func TestWhatMakesRowsTheSame(t *testing.T) {
	r := stagetest.New(t, stagetest.Unlimited, nil)
	r.Daily(t)
	request := dataset.TableWrite{Table: stagetest.History}
	field := func(name string, of arrow.DataType) arrow.Field {
		return arrow.Field{Name: name, Type: of, Nullable: true}
	}
	id, day := field("id", arrow.PrimitiveTypes.Int64), field("day", arrow.FixedWidthTypes.Date32)
	country := func(of arrow.DataType) arrow.Field { return field("country", of) }
	text := arrow.BinaryTypes.String
	const rows = `[{"id": 1, "day": "2026-10-01", "country": "CH"}, {"id": 2, "day": "2026-10-02", "country": null}, {"id": 3, "day": "2026-10-01", "country": "CH"}]`
	staged := func(text string, fields ...arrow.Field) bool {
		out, err := r.Stager.Stage(t.Context(), stage.CallOptions{}, request, stagetest.Rows(t, arrow.NewSchema(fields, nil), text))
		require.NoError(t, err)
		return out.Existed
	}
	require.False(t, staged(rows, id, day, country(text)))
	require.True(t, staged(rows, country(arrow.BinaryTypes.LargeString), day, field("id", arrow.PrimitiveTypes.Int32)))
	require.True(t, staged(rows, id, day, country(&arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int8, ValueType: text})))
	require.True(t, staged(rows, id, day, country(arrow.BinaryTypes.StringView), field("items", arrow.ListOf(arrow.PrimitiveTypes.Int64))))
	b, err := array.NewRecordReader(arrow.NewSchema([]arrow.Field{id, day, country(text)}, nil), sliced(t, arrow.NewSchema([]arrow.Field{id, day, country(text)}, nil), rows))
	require.NoError(t, err)
	out, err := r.Stager.Stage(t.Context(), stage.CallOptions{}, request, b)
	require.NoError(t, err)
	require.True(t, out.Existed)

	require.False(t, staged(strings.ReplaceAll(rows, "3", "4"), id, day, country(text)), "a value")
	require.False(t, staged(rows[:strings.LastIndex(rows, ",")]+"}]", id, day, country(text)), "a null")
	require.False(t, staged(`[{"id": 2, "day": "2026-10-02"}, {"id": 1, "day": "2026-10-01", "country": "CH"}, {"id": 3, "day": "2026-10-01", "country": "CH"}]`, id, day, country(text)), "the order")
}

// sliced returns each row of a batch as a batch of its own.
func sliced(t *testing.T, schema *arrow.Schema, text string) (out []arrow.RecordBatch) {
	t.Helper()
	whole := stagetest.Rows(t, schema, text)
	require.True(t, whole.Next())
	for row := range whole.RecordBatch().NumRows() {
		out = append(out, whole.RecordBatch().NewSlice(row, row+1))
	}
	return out
}

// Of equal calls at the same time, one is made, also if each would create the table or repeats the keys of the other.
//
// spec: stage-149
func TestOneOfEqualCallsIsMade(t *testing.T) {
	readers := []stage.DatasetReader{{Dataset: "homefeed", Training: "ml.impressions", Key: []dataset.KeyPair{{Training: "id", Staging: "id"}}, Unique: true}}
	for _, mode := range []dataset.WriteMode{dataset.WriteAppend, dataset.WriteReplace} {
		r := stagetest.New(t, stagetest.Unlimited, nil)
		request := stagetest.Create()
		request.Mode, request.Partition = mode, []string{"day"}
		const calls = 4
		results, errs := make([]stage.WriteResult, calls), make([]error, calls)
		var all sync.WaitGroup
		for i := range calls {
			rows := stagetest.Rows(t, stagetest.Schema(), firstDay)
			all.Go(func() {
				results[i], errs[i] = r.Stager.Stage(t.Context(), stage.CallOptions{Readers: readers}, request, rows)
			})
		}
		all.Wait()
		made := 0
		for i := range calls {
			require.NoError(t, errs[i])
			require.Equal(t, results[0].Snapshot, results[i].Snapshot)
			if !results[i].Existed {
				made++
			}
		}
		require.Equal(t, 1, made)
		require.ElementsMatch(t, []string{"1", "2"}, r.Column(t, "", "id"))
		require.Len(t, r.Listed(t, ""), len(r.Parquet(t)), "the files of the other calls are removed")
	}
}

// An equal call commits while others make this one begin again: its keys are no reason to refuse this one.
//
// spec: stage-149
func TestEqualCallsBetweenAttempts(t *testing.T) {
	readers := []stage.DatasetReader{{Dataset: "homefeed", Training: "ml.impressions", Key: []dataset.KeyPair{{Training: "id", Staging: "id"}}, Unique: true}}
	r := stagetest.New(t, stagetest.Unlimited, nil)
	r.Daily(t)
	once(t, r, dataset.TableWrite{Table: stagetest.History}, secondDay)
	r.Tables.OnCommit = func(ctx context.Context, change commit.Change) (commit.Committed, error) {
		r.Tables.OnCommit = nil
		r.Stage(t, dataset.TableWrite{Table: stagetest.History}, stagetest.Schema(), `[{"id": 8, "day": "2026-10-08"}]`)
		_, err := r.Tables.Commit(ctx, change)
		r.Stage(t, dataset.TableWrite{Table: stagetest.History}, stagetest.Schema(), firstDay)
		return commit.Committed{}, err
	}
	out, err := r.Stager.Stage(t.Context(), stage.CallOptions{Readers: readers}, dataset.TableWrite{Table: stagetest.History}, stagetest.Rows(t, stagetest.Schema(), firstDay))
	require.NoError(t, err)
	require.True(t, out.Existed)
	require.ElementsMatch(t, []string{"1", "2", "3", "8"}, r.Column(t, "", "id"))
	require.Len(t, r.Listed(t, ""), len(r.Parquet(t)))
}

// A new branch begins with the rows of main.
//
// spec: stage-39, stage-143
func TestBranchesBeginWithTheRowsOfMain(t *testing.T) {
	r := stagetest.New(t, stagetest.Unlimited, nil)
	r.Daily(t)
	made := once(t, r, dataset.TableWrite{Table: stagetest.History}, firstDay)
	branch := dataset.TableWrite{Table: stagetest.History, Branch: "candidate"}
	out := once(t, r, branch, firstDay)
	require.True(t, out.Existed && out.Branched)
	require.Equal(t, made.Snapshot, out.Snapshot)
	require.False(t, once(t, r, branch, secondDay).Existed)
	require.True(t, once(t, r, branch, secondDay).Existed)
	require.Len(t, r.Column(t, "candidate", "id"), 3)
	require.Len(t, r.Column(t, "", "id"), 2)
	_, err := r.Tables.Publish(t.Context(), stagetest.History, "candidate")
	require.NoError(t, err)
	require.True(t, once(t, r, dataset.TableWrite{Table: stagetest.History}, secondDay).Existed, "main has the rows since")
}
