package stage_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/catalog/commit"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/plan"
	"github.com/penstock/penstock/loader/stage"
	"github.com/penstock/penstock/loader/stage/stagetest"
)

// byID returns the reader of a dataset that joins the table by its id.
func byID() stage.DatasetReader {
	return stage.DatasetReader{Dataset: "clicks", Training: "ml.impressions", Key: []dataset.KeyPair{{Training: "req", Staging: "id"}}, Unique: true}
}

// stageFor stages rows to a table that the readers read.
func stageFor(t *testing.T, r *stagetest.Rig, request dataset.TableWrite, text string, readers ...stage.DatasetReader) (stage.WriteResult, error) {
	t.Helper()
	return r.Stager.Stage(t.Context(), stage.CallOptions{Readers: readers}, request, stagetest.Rows(t, stagetest.Schema(), text))
}

// requireRepeated requires that rows were refused because of repeated keys.
func requireRepeated(t *testing.T, err error, text string) {
	t.Helper()
	require.Equal(t, fault.Invalid, fault.KindOf(err), "%v", err)
	require.ErrorContains(t, err, text)
	require.ErrorContains(t, err, "--allow-duplicates")
}

// repeated has three keys with several rows each, in no order, and two rows with a null key.
const repeated = `[{"id": 9}, {"id": 2, "day": "2026-10-01"}, {"id": 7}, {"id": null}, {"id": 2, "day": "2026-10-02"}, {"id": 9}, {"id": 4}, {"id": null}, {"id": 9}, {"id": 7}]`

// spec: stage-113, stage-114, stage-116
func TestRepeatedKeysAreRefused(t *testing.T) {
	history, last, days, unnamed, other := byID(), byID(), byID(), byID(), byID()
	unnamed.Dataset, other.Key[0].Staging = "", "other"
	history.Time, last.Unique, days.Aligned = "day", false, true
	const three = "3 keys have several of the rows, and dataset clicks needs one row of each key: id = 2; 7; 9"
	for name, c := range map[string]struct {
		readers []stage.DatasetReader
		rows    string
		want    string // "": the rows are staged
	}{
		"key":                                {[]stage.DatasetReader{byID()}, repeated, three},
		"several datasets":                   {[]stage.DatasetReader{last, byID(), byID()}, repeated, three},
		"unnamed":                            {[]stage.DatasetReader{unnamed}, repeated, "and a dataset of the server needs one row of each key"},
		"no dataset":                         {nil, repeated, "3 keys have several of the rows, and a join needs one row of each key: id = 2; 7; 9"},
		"one is taken":                       {[]stage.DatasetReader{last}, repeated, ""},
		"times differ":                       {[]stage.DatasetReader{history}, `[{"id": 2, "day": "2026-10-01"}, {"id": 2, "day": "2026-10-02"}, {"id": 2}, {"id": 2}]`, ""},
		"times repeat":                       {[]stage.DatasetReader{history}, `[{"id": 2, "day": "2026-10-01"}, {"id": 2, "day": "2026-10-01"}]`, "1 key has several of the rows, and dataset clicks needs one row of each key: id, day = 2, 2026-10-01;"},
		"partitions differ":                  {[]stage.DatasetReader{days}, `[{"id": 2, "day": "2026-10-01"}, {"id": 2, "day": "2026-10-02"}]`, ""},
		"partitions repeat":                  {[]stage.DatasetReader{days}, `[{"id": 2, "day": "2026-10-01"}, {"id": 2, "day": "2026-10-01"}]`, "1 key has several of the rows in one partition"},
		"the dataset's column is not there":  {[]stage.DatasetReader{other}, repeated, ""},
		"null in the key":                    {[]stage.DatasetReader{byID()}, `[{"id": null}, {"id": null}, {"id": 1}]`, ""},
		"a fourth key is counted, not shown": {[]stage.DatasetReader{byID()}, `[{"id": 1}, {"id": 2}, {"id": 3}, {"id": 4}, {"id": 4}, {"id": 3}, {"id": 2}, {"id": 1}]`, "4 keys have several of the rows, and dataset clicks needs one row of each key: id = 1; 2; 3; …"},
	} {
		t.Run(name, func(t *testing.T) {
			r := stagetest.New(t, stagetest.Unlimited, nil)
			request := stagetest.Create()
			request.Partition = []string{"day"}
			out, err := stageFor(t, r, request, c.rows, c.readers...)
			if c.want == "" {
				require.NoError(t, err)
				require.EqualValues(t, strings.Count(c.rows, "id"), out.Rows)
				return
			}
			requireRepeated(t, err, c.want)
			require.Empty(t, r.Parquet(t))
			_, err = r.Tables.State(t.Context(), stagetest.History, "")
			require.Equal(t, fault.NotFound, fault.KindOf(err), "a table was created")
			request.AllowDuplicates = true
			_, err = stageFor(t, r, request, c.rows, c.readers...)
			require.NoError(t, err)
		})
	}
}

// The remedy for repeated keys names a sort order only if the call can choose one that helps.
//
// spec: stage-113, stage-114
func TestRemediesForRepeatedKeysCanBeUsed(t *testing.T) {
	r := stagetest.New(t, stagetest.Unlimited, nil)
	remedy := func(request dataset.TableWrite, readers ...stage.DatasetReader) string {
		_, err := stageFor(t, r, request, repeated, readers...)
		require.Equal(t, fault.Invalid, fault.KindOf(err), "%v", err)
		return fault.As(err).Remedy
	}
	const allow = ", or allow them with allow_duplicates (--allow-duplicates)"
	const last = "leave out the repeated rows, read them with duplicates: last and order_by in the dataset's entry" + allow
	const training = ", add the dataset to the config file first if this is its training table" + allow
	create := stagetest.Create()
	require.Equal(t, "leave out the repeated rows, name the column that orders the rows of a key in sort (--sort id,COLUMN)"+training, remedy(create))
	require.Equal(t, last, remedy(create, byID()), "the order of the rows does not matter to a dataset")
	create.Sort = []string{"id"}
	require.Equal(t, "leave out the repeated rows, add the column that orders the rows of a key to sort (--sort)"+training, remedy(create))
	_, err := stageFor(t, r, create, `[{"id": 1}]`)
	require.NoError(t, err)
	add := dataset.TableWrite{Table: create.Table, Mode: create.Mode}
	require.Equal(t, "leave out the repeated rows"+training, remedy(add), "a table keeps its order")
	require.Equal(t, last, remedy(add, byID()))
}

// If a call names both the key and a sort order, rows may share the key but not all columns of the
// key and the order.
//
// spec: stage-114
func TestRowsOfAnOrderDiffer(t *testing.T) {
	r := stagetest.New(t, stagetest.Unlimited, nil)
	request := stagetest.Create()
	request.Sort = []string{"id", "day desc"}
	history := `[{"id": 2, "day": "2026-10-01"}, {"id": 2, "day": "2026-10-02"}`
	_, err := stageFor(t, r, request, history+`, {"id": 2, "day": "2026-10-02"}]`)
	requireRepeated(t, err, "1 key has several of the rows, and a join needs one row of each key: id, day = 2, 2026-10-02;")
	_, err = stageFor(t, r, request, history+`]`)
	require.NoError(t, err)
	_, err = stageFor(t, r, request, history+`, {"id": 3, "day": "2026-10-02"}]`)
	requireRepeated(t, err, "2 keys of the rows are in table ml.history already")
	request.Key, request.Buckets, request.Sort = nil, 0, nil // the table has recorded the key
	_, err = stageFor(t, r, request, history+`, {"id": 4, "day": "2026-10-02"}]`)
	requireRepeated(t, err, "2 keys of the rows are in table ml.history already")
	_, err = stageFor(t, r, request, `[{"id": 2, "day": "2026-10-03"}]`)
	require.NoError(t, err)
}

// A call without a key compares rows by the key that the table records. If it records none, the
// result says that the rows were not compared.
//
// spec: stage-114, stage-168, stage-169
func TestTheTableRecordsItsKey(t *testing.T) {
	add := dataset.TableWrite{Table: stagetest.History}
	created := func(allow bool) *stagetest.Rig {
		r := stagetest.New(t, stagetest.Unlimited, nil)
		request := stagetest.Create()
		request.AllowDuplicates = allow
		out, err := stageFor(t, r, request, `[{"id": 2}]`)
		require.NoError(t, err)
		require.False(t, out.KeysUnchecked)
		return r
	}
	r := created(false)
	state, err := r.Tables.State(t.Context(), stagetest.History, "")
	require.NoError(t, err)
	require.Equal(t, `["id"]`, state.Properties[commit.PropertyKey])
	_, err = stageFor(t, r, add, repeated)
	requireRepeated(t, err, "3 keys have several of the rows")
	_, err = stageFor(t, r, add, `[{"id": 1}, {"id": 2}]`)
	requireRepeated(t, err, "1 key of the rows is in table ml.history already")
	out, err := stageFor(t, r, add, `[{"id": 1}, {"id": 3}]`)
	require.NoError(t, err)
	require.False(t, out.KeysUnchecked)

	r = created(true)
	state, err = r.Tables.State(t.Context(), stagetest.History, "")
	require.NoError(t, err)
	require.NotContains(t, state.Properties, commit.PropertyKey)
	for _, dry := range []bool{true, false} {
		unknown := add
		unknown.DryRun = dry
		out, err = stageFor(t, r, unknown, repeated)
		require.NoError(t, err)
		require.True(t, out.KeysUnchecked)
	}
	last := byID()
	last.Unique = false
	out, err = stageFor(t, r, add, `[{"id": 2}]`, last)
	require.NoError(t, err)
	require.False(t, out.KeysUnchecked, "the dataset allows several rows")

	for _, identifier := range [][]int{nil, {1}} {
		r.Tables.OnState = func(s *commit.TableState) {
			if s.Identifier = identifier; identifier == nil {
				s.Properties = map[string]string{commit.PropertyKey: `["id"]`}
			}
		}
		_, err = stageFor(t, r, add, `[{"id": 80}, {"id": 80}]`)
		requireRepeated(t, err, "1 key has several of the rows")
	}
	r.Tables.OnState = func(s *commit.TableState) { s.Properties = map[string]string{commit.PropertyKey: `["id", "gone"]`} }
	out, err = stageFor(t, r, add, `[{"id": 70}]`)
	require.NoError(t, err)
	require.True(t, out.KeysUnchecked, "a column of the key is gone")
}

// Repeated keys are counted exactly, for any number and order of rows and any memory limit.
//
// spec: stage-113, stage-115, stage-42
func TestRepeatedKeysAreCounted(t *testing.T) {
	const rows, seed = 40_000, 7
	for _, limit := range []int64{24 << 20, stagetest.Unlimited} {
		for _, typed := range []arrow.DataType{arrow.PrimitiveTypes.Int64, arrow.BinaryTypes.String} {
			r := stagetest.New(t, limit, nil)
			random := rand.New(rand.NewPCG(seed, seed))
			of := arrow.NewSchema([]arrow.Field{{Name: "id", Type: typed, Nullable: true}, {Name: "value", Type: arrow.BinaryTypes.String, Nullable: true}}, nil)
			draw := func(n int, most int64) (array.RecordReader, map[int64]int) {
				var text strings.Builder
				drawn := map[int64]int{}
				for i := range n {
					id := random.Int64N(most)
					drawn[id]++
					form := "%d"
					if typed.ID() == arrow.STRING {
						form = `"%d"`
					}
					fmt.Fprintf(&text, `%c{"id": `+form+`, "value": "%0200d"}`, ",["[min(1, max(0, 1-i))], id, i)
				}
				return stagetest.Rows(t, of, text.String()+"]"), drawn
			}
			ctx, entered := r.Budget.Enter(t.Context(), "test")
			request := stagetest.Create()
			request.Sort = []string{"value"}
			o := stage.CallOptions{Readers: []stage.DatasetReader{byID()}}
			input, drawn := draw(rows, rows)
			_, err := r.Stager.Stage(ctx, o, request, input)
			several := 0
			for _, n := range drawn {
				if n > 1 {
					several++
				}
			}
			requireRepeated(t, err, fmt.Sprintf("%d keys have several of the rows", several))
			require.Regexp(t, "each key: id = [0-9]+; [0-9]+; [0-9]+; …", err.Error())
			require.Empty(t, r.Parquet(t))

			once := []int64{}
			for id := range drawn {
				once = append(once, id)
			}
			slices.Sort(once)
			var text []string
			for _, id := range once {
				form := `{"id": %d}`
				if typed.ID() == arrow.STRING {
					form = `{"id": "%d"}`
				}
				text = append(text, fmt.Sprintf(form, id))
			}
			_, err = r.Stager.Stage(ctx, o, request, stagetest.Rows(t, of, "["+strings.Join(text, ",")+"]"))
			require.NoError(t, err)
			request.AllowDuplicates = false
			fresh := fmt.Sprintf(strings.Split(text[0], ":")[0]+": %s}", map[arrow.Type]string{arrow.INT64: "1000001", arrow.STRING: `"x"`}[typed.ID()])
			_, err = r.Stager.Stage(ctx, o, request, stagetest.Rows(t, of, "["+strings.Join(append(text[:100:100], fresh), ",")+"]"))
			requireRepeated(t, err, "100 keys of the rows are in table ml.history already")
			_, err = r.Stager.Stage(ctx, o, request, stagetest.Rows(t, of, "["+fresh+"]"))
			require.NoError(t, err)
			entered.Release()
		}
	}
}

// Keys that the table has are refused, unless their rows are replaced. Only files that may have the
// new keys are read.
//
// spec: stage-115
func TestKeysOfTheTableAreRefused(t *testing.T) {
	r := stagetest.New(t, stagetest.Unlimited, nil)
	r.Daily(t)
	var read []string
	options := stage.Options{
		Route: func(table string) (stage.WritableTables, string, error) { return &r.Tables, table, nil }, Clock: time.Now, Rows: r.Rows,
		Read: func(ctx context.Context, source plan.Source, columns []catalog.Field) (array.RecordReader, error) {
			for _, f := range source.Files {
				read = append(read, f.File.Location)
			}
			return r.Tables.Read(r.Budget)(ctx, source, columns)
		},
	}
	r.Stager = stage.New(options)
	request := dataset.TableWrite{Table: stagetest.History}
	_, err := stageFor(t, r, request, `[{"id": 1, "day": "2026-10-01"}, {"id": 2, "day": "2026-10-02"}, {"id": null, "day": "2026-10-02"}]`, byID())
	require.NoError(t, err)
	require.Empty(t, read)
	before := r.Parquet(t)
	_, err = stageFor(t, r, request, `[{"id": 2, "day": "2026-10-03"}, {"id": 8, "day": "2026-10-03"}, {"id": null, "day": "2026-10-03"}]`, byID())
	requireRepeated(t, err, "1 key of the rows is in table ml.history already, and dataset clicks needs one row of each key: id = 2;")
	require.Equal(t, before, r.Parquet(t))
	require.Len(t, read, 1, "files without keys of the rows are read")
	dry := request
	dry.DryRun = true
	_, err = stageFor(t, r, dry, `[{"id": 2, "day": "2026-10-03"}]`, byID())
	requireRepeated(t, err, "1 key of the rows is in table ml.history already")
	read = nil
	_, err = stageFor(t, r, request, `[{"id": 100, "day": "2026-10-03"}]`, byID())
	require.NoError(t, err)
	require.Empty(t, read, "the bounds of the files tell that they do not have the key")

	replace := request
	replace.Mode = dataset.WriteReplace
	_, err = stageFor(t, r, replace, `[{"id": 1, "day": "2026-10-01"}]`, byID())
	require.NoError(t, err, "the row is replaced")
	_, err = stageFor(t, r, replace, `[{"id": 2, "day": "2026-10-01"}]`, byID())
	requireRepeated(t, err, "1 key of the rows is in table ml.history already")
	days := byID()
	days.Aligned = true
	_, err = stageFor(t, r, request, `[{"id": 2, "day": "2026-10-01"}]`, days)
	require.NoError(t, err)
	_, err = stageFor(t, r, request, `[{"id": 2, "day": "2026-10-02"}]`, days)
	requireRepeated(t, err, "1 key of the rows is in table ml.history already in one partition")
}

// If two concurrent calls have the same key, one is refused. Rows with other keys are added despite
// concurrent commits.
//
// spec: stage-115
func TestKeysOfConcurrentCallsAreRefused(t *testing.T) {
	for other, want := range map[string]string{`[{"id": 2}]`: "1 key of the rows is in table ml.history already", `[{"id": 3}]`: ""} {
		r := stagetest.New(t, stagetest.Unlimited, nil)
		_, err := stageFor(t, r, stagetest.Create(), `[{"id": 1}]`)
		require.NoError(t, err)
		r.Tables.OnCommit = func(ctx context.Context, change commit.Change) (commit.Committed, error) {
			r.Tables.OnCommit = nil
			_, err := stageFor(t, r, stagetest.Create(), other)
			require.NoError(t, err)
			return r.Tables.Commit(ctx, change)
		}
		_, err = stageFor(t, r, stagetest.Create(), `[{"id": 2}, {"id": 8}]`)
		if want != "" {
			requireRepeated(t, err, want)
			require.Len(t, r.Parquet(t), 2)
			continue
		}
		require.NoError(t, err)
		require.ElementsMatch(t, []string{"1", "2", "3", "8"}, r.Column(t, "", "id"))
	}
}

// Keys whose type cannot equal that of a dataset's training table are refused before a row is read.
//
// spec: stage-117
func TestKeysThatNoDatasetCanJoinAreRefused(t *testing.T) {
	for typed, want := range map[string]string{
		"string": "column id of the rows has type int64, and dataset clicks joins it to a column of type utf8: keys of these types cannot be equal; cast the column to utf8",
		"int":    "",
	} {
		r := stagetest.New(t, stagetest.Unlimited, nil)
		training(t, r, typed, "bucket[4]")
		reader, gone := byID(), byID()
		reader.Key[0].Training, gone.Training = "id", "ml.gone"
		for _, exists := range []bool{false, true} {
			if exists {
				r.Stage(t, stagetest.Create(), stagetest.Schema(), stagetest.Few)
			}
			request := stagetest.Create()
			if want == "" {
				request.DryRun, request.AllowDuplicates = true, true
				_, err := stageFor(t, r, request, stagetest.Few, gone, reader)
				require.NoError(t, err)
				continue
			}
			_, err := r.Stager.Stage(t.Context(), stage.CallOptions{Readers: []stage.DatasetReader{gone, reader}}, request, unread(t, stagetest.Schema()))
			require.Equal(t, fault.Invalid, fault.KindOf(err), "%v", err)
			require.ErrorContains(t, err, want)
		}
	}
}
