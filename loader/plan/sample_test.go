package plan_test

import (
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/bucket"
	"github.com/penstock/penstock/internal/bucket/buckettest"
	"github.com/penstock/penstock/internal/expr"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/joiner/rule"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/plan"
	"github.com/penstock/penstock/loader/plan/plantest"
)

// sampled returns rows with the columns id, 0 to n-1, and label, id % 5, which has some
// nulls.
func sampled(t *testing.T, n int) arrow.RecordBatch {
	t.Helper()
	b := array.NewRecordBuilder(memory.DefaultAllocator, arrow.NewSchema([]arrow.Field{
		{Name: "id", Type: arrow.PrimitiveTypes.Int64}, {Name: "label", Type: arrow.PrimitiveTypes.Int32, Nullable: true},
	}, nil))
	for i := range n {
		b.Field(0).(*array.Int64Builder).Append(int64(i))
		if i%7 == 0 {
			b.Field(1).AppendNull()
		} else {
			b.Field(1).(*array.Int32Builder).Append(int32(i % 5))
		}
	}
	return b.NewRecordBatch()
}

func whole(n int) []int32 {
	all := make([]int32, n)
	for i := range all {
		all[i] = int32(i)
	}
	return all
}

func where(t *testing.T, rows arrow.RecordBatch, text string) *expr.Filter {
	t.Helper()
	parsed, err := expr.Parse(text)
	require.NoError(t, err)
	bound, err := parsed.Bind(rows.Schema())
	require.NoError(t, err)
	return bound
}

// inBatches samples a file batch by batch.
func inBatches(t *testing.T, s *plan.Sample, rows arrow.RecordBatch, size int, location string) []int32 {
	t.Helper()
	kept := []int32{}
	var pass []int32
	for from := 0; from < int(rows.NumRows()); from += size {
		b := rows.NewSlice(int64(from), min(rows.NumRows(), int64(from+size)))
		pass = append(pass[:0], whole(int(b.NumRows()))...)
		got, err := s.Keep(pass, b, pass, location, int64(from), nil)
		require.NoError(t, err)
		for _, row := range got {
			kept = append(kept, int32(from)+row)
		}
	}
	return kept
}

// spec: join-80
func TestSampleOfHashSpaceIsBuckets(t *testing.T) {
	const n = 3000
	rows := sampled(t, n)
	s := &plan.Sample{From: 1.0 / 16, To: 3.0 / 16, Columns: []string{"id"}, Rate: 1}
	rest := &plan.Sample{From: s.To, To: s.From, Columns: s.Columns, Rate: 1}
	require.Equal(t, []string{"id"}, s.Reads())
	var want, other []int32
	for i := range int32(n) {
		// The second and third of the digit-reversed buckets 0, 8, 4, 12, ….
		if b := buckettest.Of(bucket.HashInt64(int64(i)), 16); b == 8 || b == 4 {
			want = append(want, i)
		} else {
			other = append(other, i)
		}
	}
	for _, size := range []int{1, 64, 1000, n} {
		require.Equal(t, want, inBatches(t, s, rows, size, "a"))
		require.Equal(t, other, inBatches(t, rest, rows, size, "b"))
	}
	got, err := s.Keep(nil, rows, want[:2], "a", 0, nil)
	require.NoError(t, err)
	require.Equal(t, want[:2], got)
	got, err = s.Keep(nil, rows, other, "a", 0, nil)
	require.NoError(t, err)
	require.Empty(t, got)
}

// spec: join-80
func TestSampleOfSeveralColumns(t *testing.T) {
	rows := sampled(t, 4000)
	s := &plan.Sample{From: 0.75, To: 0.25, Columns: []string{"id", "label"}, Rate: 1}
	rest := &plan.Sample{From: 0.25, To: 0.75, Columns: s.Columns, Rate: 1}
	kept, others := inBatches(t, s, rows, 300, "a"), inBatches(t, rest, rows, 300, "a")
	require.Equal(t, kept, inBatches(t, s, rows, 300, "b"), "it is the same in files that a compaction wrote")
	require.Len(t, others, 4000-len(kept))
	require.InDelta(t, 2000, len(kept), 150)
	require.NotSubset(t, kept, others[:1])
}

// spec: join-81
func TestSampleRate(t *testing.T) {
	const n = 5000
	rows := sampled(t, n)
	s := &plan.Sample{Rate: 0.1, Where: where(t, rows, "label = 0")}
	require.Equal(t, []string{"label"}, s.Reads())
	kept := inBatches(t, s, rows, n, "file:///a")
	for _, size := range []int{1, 7, 999} {
		require.Equal(t, kept, inBatches(t, s, rows, size, "file:///a"))
	}
	require.NotEqual(t, kept, inBatches(t, s, rows, n, "file:///b"))

	negatives, of := 0, 0
	in := map[int32]bool{}
	for _, row := range kept {
		in[row] = true
	}
	for i := range int32(n) {
		if i%7 != 0 && i%5 == 0 {
			of++
			if in[i] {
				negatives++
			}
			continue
		}
		require.True(t, in[i], "row %d, for which the condition does not hold, stays", i)
	}
	require.InDelta(t, float64(of)/10, negatives, float64(of)/30)

	more := &plan.Sample{Rate: 0.3, Where: s.Where}
	require.Subset(t, inBatches(t, more, rows, n, "file:///a"), kept, "a higher rate adds rows and drops none")
	require.Len(t, inBatches(t, &plan.Sample{Rate: 1, Where: s.Where}, rows, n, "a"), n)
	require.Empty(t, inBatches(t, &plan.Sample{Rate: 0}, rows, n, "a"))
	require.Len(t, inBatches(t, &plan.Sample{Rate: 0, Where: s.Where}, rows, n, "a"), n-of)
	require.InDelta(t, n/2, len(inBatches(t, &plan.Sample{Rate: 0.5}, rows, n, "a")), n/20)

	// A filter applied before does not change the draws of the other rows.
	few := []int32{}
	for i := int32(0); i < n; i += 3 {
		few = append(few, i)
	}
	got, err := s.Keep(nil, rows, few, "file:///a", 0, nil)
	require.NoError(t, err)
	want := []int32{}
	for _, row := range few {
		if in[row] {
			want = append(want, row)
		}
	}
	require.Equal(t, want, got)
}

func TestSampleThatIsNilOrLacksAColumn(t *testing.T) {
	rows := sampled(t, 10)
	var none *plan.Sample
	require.Nil(t, none.Reads())
	got, err := none.Keep(nil, rows, []int32{2, 3}, "", 0, nil)
	require.NoError(t, err)
	require.Equal(t, []int32{2, 3}, got)
	_, err = (&plan.Sample{Columns: []string{"gone"}, To: 1, Rate: 1}).Keep(nil, rows, whole(10), "", 0, nil)
	require.Equal(t, fault.Internal, fault.KindOf(err))
}

// TestDrawIsAsPlanned compares plans that are drawn from with plans of queries with that sample, of files with and without deletes, and
// of entries that keep or drop rows.
func TestDrawIsAsPlanned(t *testing.T) {
	for _, deletes := range []catalog.Deletes{{}, {Vector: &catalog.DeleteFile{Kind: catalog.DeletionVector, Rows: 3}}} {
		for _, join := range []rule.Kind{rule.Left, rule.Inner} {
			tables, files := plantest.Mixed()
			files.Training.Files[1].Deletes = deletes
			entry := plantest.Entry()
			entry.Join = join
			planned := func(s *dataset.Sample) *plan.Plan {
				p, err := plantest.Joined(plantest.Homefeed(entry), tables, files, dataset.Query{Rows: dataset.Rows{Sample: s}})
				require.NoError(t, err)
				return p
			}
			all := planned(nil)
			before := *all
			require.Equal(t, planned(&dataset.Sample{Rate: 0.25}), all.Draw(0.25))
			require.Equal(t, &before, all, "the plan itself stays as it is")
		}
	}
}
