package joiner_test

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/joiner"
	"github.com/penstock/penstock/joiner/joinertest"
	"github.com/penstock/penstock/joiner/rule"
)

// pair is a training table and two staging tables that match it: several batches each, with
// duplicates.
type pair struct {
	training *joinertest.Table
	staging  [2]*joinertest.Table
	mem      memory.Allocator
	limit    *budget.Budget
}

func newPair(t *testing.T) *pair {
	p := &pair{mem: joinertest.Checked(t), limit: budget.New(1 << 30)}
	make := func(name string, n int) *joinertest.Table {
		x := &joinertest.Table{Name: name, Fields: joinertest.Columns(t, "id long", "name string", "tags longs"), Cuts: []int{n / 3, n / 3}}
		for i := range n {
			x.Rows = append(x.Rows, []string{strconv.Itoa(i % 20), fmt.Sprintf("%s-%d", name, i), "[1,2,3]"})
		}
		return x
	}
	p.training, p.staging = make("training", 60), [2]*joinertest.Table{make("first", 30), make("second", 40)}
	return p
}

func (p *pair) options() joiner.Options { return joiner.Options{Memory: p.mem, Budget: p.limit} }

func (p *pair) probes(t *testing.T) []joiner.Probe {
	var probes []joiner.Probe
	for _, s := range p.staging {
		probes = append(probes, s.Probe(t, 1, joiner.Rule{Name: s.Name, Duplicates: rule.DuplicatesFirst}, joiner.BuildSpec{}, p.options()))
	}
	return probes
}

func (p *pair) join(ctx context.Context, t *testing.T) (*joiner.Reader, error) {
	return joiner.Join(ctx, p.training.Input(t, p.mem, nil, []int{1}), p.probes(t), p.options())
}

// spec: join-19, join-25
func TestNothingStartsBeforeTheFirstNext(t *testing.T) {
	p := newPair(t)
	var events []string
	note := func(x *joinertest.Table) {
		x.OnOpen = func() { events = append(events, "open "+x.Name) }
		x.Before = func(at int) { events = append(events, fmt.Sprint("read ", x.Name, at)) }
	}
	note(p.training)
	note(p.staging[0])
	r, err := p.join(t.Context(), t)
	require.NoError(t, err)
	require.Equal(t, []joiner.Counts{{}, {}}, r.Counts())
	require.Equal(t, []string{"open training"}, events, "its schema is needed")
	require.True(t, r.Next())
	require.Equal(t, []string{"open training", "read training0", "open first", "read first0", "read first1", "read first2", "read first3"}, events)
	r.Release()

	events = nil
	r, err = p.join(t.Context(), t)
	require.NoError(t, err)
	r.Release()
	require.Equal(t, []string{"open training"}, events)
}

// spec: join-25
func TestNoRowsNeedNoBuildSide(t *testing.T) {
	p := newPair(t)
	p.training.Rows, p.training.Cuts = nil, nil
	p.staging[0].OnOpen = func() { t.Error("a build side was opened") }
	r, err := p.join(t.Context(), t)
	require.NoError(t, err)
	defer r.Release()
	require.False(t, r.Next())
	require.NoError(t, r.Err())
}

func TestEarlyRelease(t *testing.T) {
	p := newPair(t)
	training := p.training.Input(t, p.mem, nil, []int{1})
	open := training.Open
	var done <-chan struct{}
	training.Open = func(ctx context.Context) (array.RecordReader, error) {
		done = ctx.Done()
		return open(ctx)
	}
	r, err := joiner.Join(t.Context(), training, p.probes(t), p.options())
	require.NoError(t, err)
	require.True(t, r.Next())
	require.Positive(t, p.limit.Used())
	require.EqualValues(t, 20, r.Counts()[0].Rows)
	kept := r.RecordBatch()
	kept.Retain()
	defer kept.Release()
	want := joinertest.Text(t, kept)
	r.Retain()
	r.Release()
	require.True(t, r.Next())
	select {
	case <-done:
		t.Error("the context ended before the join")
	default:
	}
	r.Release()
	<-done // goroutines that an input starts for the join end with it
	require.Zero(t, p.limit.Used())
	require.Equal(t, want, joinertest.Text(t, kept), "a retained batch outlives its reader")
}

// spec: join-23
func TestErrorsOfInputs(t *testing.T) {
	broken := fault.New(fault.Corrupt, "page 3 is torn").In("features.history", "a.parquet")
	cases := map[string]struct {
		spoil func(p *pair)
		op    string
		rows  int // before the error
	}{
		"training does not open":    {func(p *pair) { p.training.OpenErr = broken }, "join", 0},
		"training fails at once":    {func(p *pair) { p.training.Err = broken }, "join", 0},
		"training fails later":      {func(p *pair) { p.training.Err, p.training.FailAt = broken, 2 }, "join", 40},
		"training fails at the end": {func(p *pair) { p.training.Err, p.training.FailAt = broken, 3 }, "join", 60},
		"first does not open":       {func(p *pair) { p.staging[0].OpenErr = broken }, "join first: load the build side first", 0},
		"first fails later":         {func(p *pair) { p.staging[0].Err, p.staging[0].FailAt = broken, 2 }, "join first: load the build side first", 0},
		"second does not open":      {func(p *pair) { p.staging[1].OpenErr = broken }, "join second: load the build side second", 0},
		"second fails at the end":   {func(p *pair) { p.staging[1].Err, p.staging[1].FailAt = broken, 3 }, "join second: load the build side second", 0},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			p := newPair(t)
			c.spoil(p)
			var got []string
			r, err := p.join(t.Context(), t)
			if err == nil {
				got, _, err = joinertest.Drain(t, r)
			}
			require.EqualError(t, err, c.op+": page 3 is torn (file a.parquet)")
			require.ErrorIs(t, err, broken)
			require.Equal(t, fault.Corrupt, fault.KindOf(err))
			require.Equal(t, "a.parquet", fault.As(err).File)
			require.Len(t, got, c.rows)
			require.Zero(t, p.limit.Used())
		})
	}
}

// spec: join-23
func TestCancellation(t *testing.T) {
	cases := map[string]struct {
		where func(p *pair) *joinertest.Table
		at    int
		rows  int
	}{
		"before the first build side":  {func(p *pair) *joinertest.Table { return p.staging[0] }, 0, 0},
		"within the second build side": {func(p *pair) *joinertest.Table { return p.staging[1] }, 2, 0},
		"within training":              {func(p *pair) *joinertest.Table { return p.training }, 1, 20},
		"after the last batch":         {func(p *pair) *joinertest.Table { return p.training }, 3, 60},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			p := newPair(t)
			c.where(p).Before = func(at int) {
				if at == c.at {
					cancel()
				}
			}
			r, err := p.join(ctx, t)
			require.NoError(t, err)
			got, _, err := joinertest.Drain(t, r)
			require.ErrorIs(t, err, context.Canceled)
			require.Len(t, got, c.rows)
			require.Zero(t, p.limit.Used())
		})
	}
	t.Run("of a build", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		p := newPair(t)
		_, err := p.probes(t)[0].BuildSide(ctx)
		require.ErrorIs(t, err, context.Canceled)
		require.Zero(t, p.limit.Used())
	})
}

func TestInvalidInputsAndProbes(t *testing.T) {
	p := newPair(t)
	built := func(context.Context) (joiner.Probeable, error) { return nil, nil }
	cases := map[string]struct {
		change func(in *joiner.Input, probes []joiner.Probe)
		want   string
	}{
		"a column out of range": {func(in *joiner.Input, _ []joiner.Probe) { in.Columns = []int{3} }, "position 3 is not in a stream of 3 columns"},
		"a key out of range":    {func(_ *joiner.Input, probes []joiner.Probe) { probes[1].Key = []int{-1} }, "second: position -1"},
		"no key":                {func(_ *joiner.Input, probes []joiner.Probe) { probes[1].Key = nil }, "second: a join has no key column"},
		"other keys":            {func(_ *joiner.Input, probes []joiner.Probe) { probes[0].Key = []int{0, 1} }, "the training stream has 2 key columns and the build side 1"},
		"other columns":         {func(_ *joiner.Input, probes []joiner.Probe) { probes[0].Columns = nil }, "and not dictionary"},
		"no build side":         {func(_ *joiner.Input, probes []joiner.Probe) { probes[0].BuildSide = built }, "first has no build side"},
		"no stream": {func(in *joiner.Input, _ []joiner.Probe) {
			in.Open = func(context.Context) (array.RecordReader, error) { return nil, nil }
		}, "Open returned no stream"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			in, probes := p.training.Input(t, p.mem, nil, []int{1}), p.probes(t)
			c.change(&in, probes)
			r, err := joiner.Join(t.Context(), in, probes, p.options())
			if err == nil {
				_, _, err = joinertest.Drain(t, r)
			}
			require.ErrorContains(t, err, c.want)
			require.Equal(t, fault.Internal, fault.KindOf(err))
			require.Zero(t, p.limit.Used())
		})
	}
}

// TestBatchesWithWrongSchema checks that a batch with another schema than its stream is
// refused. The join would read beyond its buffers.
func TestBatchesWithWrongSchema(t *testing.T) {
	mem := joinertest.Checked(t)
	other := arrow.NewSchema(joinertest.Columns(t, "id int", "name string"), nil)
	short := arrow.NewSchema(joinertest.Columns(t, "id long"), nil)
	for _, wrong := range []*arrow.Schema{other, short} {
		cells := joinertest.Rows{{"1", "a"}}
		r := joinertest.Record(t, mem, wrong, cells)
		err := joiner.CheckTypes(arrow.NewSchema(joinertest.Columns(t, "id long", "name string"), nil), r)
		r.Release()
		require.Equal(t, fault.Internal, fault.KindOf(err))
	}
	same := arrow.NewSchema(append(joinertest.Columns(t, "id int"), arrow.Field{Name: "name", Type: arrow.BinaryTypes.String}), nil)
	r := joinertest.Record(t, mem, other, joinertest.Rows{{"1", "a"}})
	require.NoError(t, joiner.CheckTypes(same, r))
	r.Release()
}

// spec: join-24
func TestSharedBuildSide(t *testing.T) {
	p := newPair(t)
	built, err := joiner.Build(t.Context(), p.staging[0].Input(t, p.mem, []int{0}, []int{1}), joiner.BuildSpec{Name: "first"}, p.options())
	require.NoError(t, err)
	reserved := p.limit.Used()
	require.Equal(t, built.Bytes(), reserved)
	chosen, want := []rule.Duplicates{rule.DuplicatesFirst, rule.DuplicatesLast}, map[rule.Duplicates][]string{}
	var wait sync.WaitGroup
	var results [8][]string
	for i := range results {
		built.Retain()
		wait.Go(func() {
			r, err := joiner.Join(t.Context(), p.training.Input(t, p.mem, nil, []int{1}), []joiner.Probe{{
				Rule: joiner.Rule{Name: fmt.Sprint("table", i), Duplicates: chosen[i%2]},
				Key:  []int{0}, Columns: p.staging[0].Fields[1:2],
				BuildSide: func(context.Context) (joiner.Probeable, error) { return built, nil },
			}}, p.options())
			if err == nil {
				results[i], _, err = joinertest.Drain(t, r)
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	built.Release()
	wait.Wait()
	require.Zero(t, p.limit.Used())
	for i, got := range results {
		require.Len(t, got, 60)
		if want[chosen[i%2]] == nil {
			want[chosen[i%2]] = got
		}
		require.Equal(t, want[chosen[i%2]], got)
	}
	require.NotEqual(t, want[rule.DuplicatesFirst], want[rule.DuplicatesLast])
}

// spec: join-20
func TestTooSmallBudget(t *testing.T) {
	p := newPair(t)
	fields := joinertest.Columns(t, "id long", "day date", "name string", "tags longs")
	staging := joinertest.Table{Name: "staging", Fields: fields, Cuts: []int{10, 0, 10}}
	for i := range 30 {
		staging.Rows = append(staging.Rows, []string{strconv.Itoa(i % 20), "2026-10-01", fmt.Sprint("name", i), "[1,2,3]"})
	}
	cases := map[string]struct {
		key, columns []int
		steps        int // reservations, each of which failed once
	}{
		"numbers":         {[]int{0}, []int{0, 2, 3}, 5}, // nothing, three batches, a column
		"text":            {[]int{2}, []int{0, 2, 3}, 5},
		"both":            {[]int{0, 2, 1}, []int{0, 2, 3}, 5},
		"no columns":      {[]int{0}, nil, 5}, // nothing, three batches, the index, duplicates
		"text, no column": {[]int{2, 0}, nil, 4},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			in := staging.Input(t, p.mem, c.key, c.columns)
			need := func(limit int64) (int64, error) {
				b := budget.New(limit)
				built, err := joiner.Build(t.Context(), in, joiner.BuildSpec{Name: "history"}, joiner.Options{Memory: p.mem, Budget: b})
				if err != nil {
					require.Zero(t, b.Used())
					return b.Peak(), err
				}
				require.Equal(t, built.Bytes(), b.Used())
				require.GreaterOrEqual(t, built.Bytes(), joiner.Holds(built))
				require.LessOrEqual(t, built.Bytes(), joiner.Holds(built)+joiner.Word)
				require.EqualValues(t, 30, built.Rows())
				built.Release()
				require.Zero(t, b.Used())
				return b.Peak(), nil
			}
			steps := map[int64]bool{} // the amount reserved when the next reservation failed
			for limit := int64(0); ; limit += 32 {
				reached, err := need(limit)
				if err == nil {
					break
				}
				steps[reached] = true
				require.Equal(t, fault.Exhausted, fault.KindOf(err))
				require.ErrorContains(t, err, "load the build side history: history needs ")
				require.Contains(t, fault.As(err).Remedy, "raise the server's memory budget")
			}
			require.GreaterOrEqual(t, len(steps), c.steps, "%v", steps)
		})
	}
}

// spec: join-21
func TestOnlyOneColumnIsHeldTwice(t *testing.T) {
	mem, limit := joinertest.Checked(t), budget.New(1<<30)
	staging := joinertest.Table{Name: "staging", Fields: joinertest.Columns(t, "id long", "a long", "b long", "c long", "d long", "e long", "f long", "g long", "h long")}
	for i := range 2000 {
		row := make([]string, 9)
		for c := range row {
			row[c] = strconv.Itoa(i)
		}
		staging.Rows = append(staging.Rows, row)
	}
	built, err := joiner.Build(t.Context(), staging.Input(t, mem, []int{0}, []int{1, 2, 3, 4, 5, 6, 7, 8}), joiner.BuildSpec{Name: "s"}, joiner.Options{Memory: mem, Budget: limit})
	require.NoError(t, err)
	defer built.Release()
	const column = 2000 * 8
	require.Less(t, limit.Peak(), int64(14*column), "nine columns, and keys and index; all columns twice are more")
}

// spec: join-22
func TestTooManyRows(t *testing.T) {
	p := newPair(t)
	in := p.staging[0].Input(t, p.mem, []int{0}, []int{1})
	_, err := joiner.BuildUpTo(t.Context(), in, joiner.BuildSpec{Name: "history"}, p.options(), 29)
	require.Equal(t, fault.Exhausted, fault.KindOf(err))
	require.EqualError(t, err, "history has more than 29 rows in one file group, more than int32 references can address; "+
		"write the staging table with more buckets")
	built, err := joiner.BuildUpTo(t.Context(), in, joiner.BuildSpec{Name: "history"}, p.options(), 30)
	require.NoError(t, err)
	built.Release()
	require.Equal(t, 2147483646, joiner.MaxRows)
}

func TestDefaults(t *testing.T) {
	p := newPair(t)
	in := p.staging[0].Input(t, p.mem, []int{0}, nil)
	in.File = nil
	built, err := joiner.Build(t.Context(), in, joiner.BuildSpec{Name: "s"}, joiner.Options{})
	require.NoError(t, err)
	require.Positive(t, built.Bytes())
	training := p.training.Input(t, p.mem, nil, nil)
	training.File = nil
	r, err := joiner.Join(t.Context(), training, []joiner.Probe{{
		Rule: joiner.Rule{Name: "s"}, Key: []int{0}, BuildSide: func(context.Context) (joiner.Probeable, error) { return built, nil },
	}}, joiner.Options{})
	require.NoError(t, err)
	_, _, err = joinertest.Drain(t, r)
	require.ErrorContains(t, err, "several rows of s have the key id=0, in file (unnamed)")
	require.NotErrorIs(t, err, context.Canceled)
}
