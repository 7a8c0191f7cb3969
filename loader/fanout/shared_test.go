package fanout_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/scenario"
	"github.com/penstock/penstock/loader"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/fanout"
	"github.com/penstock/penstock/loader/loadertest"
	"github.com/penstock/penstock/loader/resolve"
	"github.com/penstock/penstock/loader/stream"
)

// trace is what a client sees of a stream.
type trace struct {
	schema  string
	batches [][]string // rows as text
	cursors []string
	rows    []int64 // BatchRows
	err     string
	report  stream.Report
}

// note notes the batch that a stream has returned.
func (x *trace) note(s loader.Stream) {
	if err := scenario.CheckCategories(s.RecordBatch()); err != nil {
		x.err = err.Error()
	}
	x.batches = append(x.batches, scenario.Texts(scenario.Values(s.RecordBatch())))
	x.cursors = append(x.cursors, string(s.Cursor().JSON()))
	x.rows = append(x.rows, s.BatchRows())
}

// end notes the end of a stream.
func (x *trace) end(s loader.Stream) {
	if err := s.Err(); err != nil {
		x.err = err.Error()
		return
	}
	x.report = s.Report()
}

// traced reads a stream to its end, and releases it.
func traced(s loader.Stream) trace {
	defer s.Release()
	var x trace
	if s.Begin() == nil {
		x.schema = s.Schema().String()
		for s.Next() {
			x.note(s)
		}
	}
	x.end(s)
	return x
}

// jobOf is one job that reads a planned query.
type jobOf struct {
	planned loader.Planned
	options loader.StreamOptions
	want    trace
	got     trace
	stream  loader.Stream // nil: it has not started, or has ended
	begun   bool
	left    bool // it was released before its end
	ended   bool
}

// comparable returns the report without what reading ahead changes: costs and, where a
// stream reads more rows than it returns, their counts.
func (j *jobOf) comparable(r stream.Report) stream.Report {
	q := j.planned.Query
	staging := map[string]stream.StagingReport{}
	for name, of := range r.Staging {
		of.Strategy, of.BytesRead, of.Shared, of.ReadAgain, of.Amplification, of.SpilledBytes = "", 0, 0, 0, 0, 0
		if q.Limit > 0 || q.Every.Of > 1 {
			of.Counts = j.want.report.Staging[name].Counts
		}
		staging[name] = of
	}
	if q.Limit > 0 || q.Every.Of > 1 {
		r.Divided = 0
	}
	r.Staging = staging
	return r
}

// check compares what a job got with what it gets alone.
func (j *jobOf) check(t *testing.T, name string) {
	t.Helper()
	name = fmt.Sprintf("%s: %+v", name, j.planned.Query.Reading)
	n := len(j.got.batches)
	require.LessOrEqual(t, n, len(j.want.batches), name)
	if n > 0 {
		require.Equal(t, j.want.batches[:n], j.got.batches, name)
		require.Equal(t, j.want.cursors[:n], j.got.cursors, name)
		require.Equal(t, j.want.rows[:n], j.got.rows, name)
		require.Equal(t, j.want.schema, j.got.schema, name)
	}
	if j.left {
		return
	}
	require.Equal(t, j.want.err, j.got.err, name)
	require.Len(t, j.want.batches, n, name)
	if j.want.err == "" {
		require.Equal(t, j.comparable(j.want.report), j.comparable(j.got.report), name)
	}
}

// variant plans a query with other columns, in another order, and with other batch sizes.
func variant(t *testing.T, random *rand.Rand, l *loader.Loader, of loader.Planned) loader.Planned {
	t.Helper()
	q := of.Query
	if random.IntN(2) == 0 {
		q.Columns = nil
		for _, i := range random.Perm(len(of.Outputs))[:1+random.IntN(len(of.Outputs))] {
			if o := of.Outputs[i]; o.Dense == nil {
				q.Columns = append(q.Columns, perhapsCategory(random, of.Query.Wire, o, columnNamed(of.Query.Columns, o.Name)))
			}
		}
	}
	if random.IntN(2) == 0 {
		times := []int{1, 2, 3, 4, 5, 6, 8, 12, 16}[random.IntN(9)]
		q.BatchRows, q.GlobalBatchRows = times*q.BatchRows, times*q.GlobalBatchRows
	}
	p, err := l.Plan(t.Context(), q)
	require.NoError(t, err)
	return p
}

// perhapsCategory makes a column a category, if the wire form has categories of it.
func perhapsCategory(random *rand.Rand, wire dataset.Wire, o resolve.Output, c dataset.Column) dataset.Column {
	apart := o.Table == resolve.TrainingTable && !o.Request
	if o.Type().ID() == arrow.STRING && !wire.Grouped() && (apart || wire != dataset.WireIndexed) && random.IntN(2) == 0 {
		c.As = dataset.Category
	}
	return c
}

// columnNamed returns the column of a query with a name in the stream. nil columns are all columns.
func columnNamed(columns []dataset.Column, name string) dataset.Column {
	for _, c := range columns {
		if c.Output() == name {
			return c
		}
	}
	return dataset.Column{Column: name}
}

// jobs returns jobs that read a query from random positions, up to random limits, and as
// DataLoader workers. They vary in columns and batch sizes if varied is set.
func jobs(t *testing.T, random *rand.Rand, l *loader.Loader, p loader.Planned, varied bool) []*jobOf {
	t.Helper()
	counts, err := l.Count(t.Context(), p, loader.StreamOptions{}, func(ctx context.Context) (context.Context, func(), error) { return ctx, func() {}, nil })
	require.NoError(t, err)
	if p.Query.Shard.Index == dataset.AllShards {
		p.Query.Shard.Index = random.IntN(p.Query.Shard.Of)
	}
	o := loader.StreamOptions{Counts: counts}
	if p.Query.Endpoints.BySplits() {
		parts := p.PartsFrom(0)
		o.Part = parts[random.IntN(len(parts))]
	}
	whole, err := l.Open(t.Context(), p, o)
	require.NoError(t, err)
	all := traced(whole)
	var out []*jobOf
	for i := range 2 + random.IntN(5) {
		j := &jobOf{planned: p, options: o}
		if varied {
			j.planned = variant(t, random, l, p)
		}
		if len(all.cursors) > 0 && random.IntN(3) == 0 {
			at, err := l.Open(t.Context(), p, o)
			require.NoError(t, err)
			for range 1 + random.IntN(len(all.cursors)) {
				at.Next()
			}
			j.planned.Query.Cursor = dataset.Cursors{at.Cursor()}
			at.Release()
		}
		if o.Part.IsZero() && random.IntN(3) == 0 {
			of := 2 + random.IntN(2)
			j.planned.Query.Every = dataset.Every{Step: i % of, Of: of}
		} else if random.IntN(3) == 0 && !p.Query.Tail.Drops() && p.Query.BatchRequests == 0 && o.Part.IsZero() {
			j.planned.Query.Limit = 1 + random.Int64N(40)
		}
		alone, err := l.Open(t.Context(), j.planned, j.options)
		require.NoError(t, err)
		j.want = traced(alone)
		out = append(out, j)
	}
	return out
}

// TestSharedStreamsGiveTheSame has jobs read a query in a random interleaving, or at once. They
// start late, are parked, and leave before their end. Each gets what it gets alone.
//
// spec: wire-39, computed-15
func TestSharedStreamsGiveTheSame(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(30, 2))
	var shared, views, widened int64
	alone := map[fanout.Reason]int64{}
	changed := 0
	for _, c := range loadertest.Generated(t, loadertest.Cases(share, 60, 2000), func(c *scenario.Case) {
		if changed++; changed%2 == 0 {
			loadertest.KeepAllRows(c)
		}
	}) {
		c.ScanRows = 1 + random.IntN(9)
		loadertest.Resize(&c.Query, c.Query.Lanes*(1+random.IntN(6)))
		if random.IntN(2) == 0 {
			c.Query.Limit = 0
		}
		m := loadertest.Made(t, c)
		mem := memory.NewCheckedAllocator(batch.Default())
		limit := budget.New(loadertest.Plenty)
		l := loader.New(loader.Options{Datasets: []dataset.Dataset{m.Dataset}, Catalog: m.World, Scan: m.Scan, Budget: limit, Memory: mem})
		p, err := l.Plan(t.Context(), c.Query)
		require.NoError(t, err)
		all := jobs(t, random, l, p, random.IntN(2) == 0)
		window := []int64{0, 1000, 5000, 1 << 30}[random.IntN(4)]
		sharer := fanout.New(fanout.Options{Budget: limit, Window: window})
		if random.IntN(3) == 0 {
			concurrently(t, random, sharer.Over(l), all)
		} else {
			interleave(t, random, sharer.Over(l), all)
		}
		for _, j := range all {
			j.check(t, c.Name)
		}
		stats := sharer.Stats()
		shared, views, widened = shared+stats.Shared, views+stats.Views, widened+stats.Widened
		for why, n := range stats.Alone {
			alone[why] += n
		}
		require.Zero(t, stats.Groups+stats.Members, c.Name)
		require.Zero(t, stats.WindowBytes, c.Name)
		require.Zero(t, limit.Used(), c.Name)
		mem.AssertSize(t, 0)
	}
	t.Logf("%d batches shared, %d as views, of readers that were widened %d times; alone: %v", shared, views, widened, alone)
	if share == 1 { // otherwise only a few cases run
		require.Greater(t, shared, int64(60))
		require.Positive(t, views) // how many depends on which job comes first
		require.Positive(t, widened)
	}
}

// TestSharingStreamsReportWhatTheyRead: the report of a stream that may share its batches has the bytes of staging tables
// that a stream alone has, also those that were read before the form of the batches was chosen.
func TestSharingStreamsReportWhatTheyRead(t *testing.T) {
	t.Parallel()
	c := loadertest.World(t)
	for _, wire := range []dataset.Wire{dataset.WirePlain, dataset.WireAuto} {
		limit := budget.New(1 << 30)
		l := loader.New(loader.Options{Datasets: []dataset.Dataset{c.Dataset}, Catalog: c.World, Scan: c.Scan, Budget: limit})
		q := loadertest.OneShard(1, 8)
		q.Wire = wire
		p, err := l.Plan(t.Context(), q)
		require.NoError(t, err)
		report := func(s loader.Stream, err error) map[string]stream.StagingReport {
			require.NoError(t, err)
			defer s.Release()
			for s.Next() {
				require.Positive(t, s.RecordBatch().NumRows())
			}
			require.NoError(t, s.Err())
			return s.Report().Staging
		}
		want := report(l.Open(t.Context(), p, loader.StreamOptions{}))
		require.Positive(t, want["s0"].BytesRead)
		sharer := fanout.New(fanout.Options{Budget: limit, Window: 1 << 28})
		require.Equal(t, want, report(sharer.Over(l).Open(t.Context(), p, loader.StreamOptions{})), wire)
	}
}

// interleave runs jobs one step at a time, in random order.
func interleave(t *testing.T, random *rand.Rand, l *fanout.SharingLoader, all []*jobOf) {
	t.Helper()
	pace := make([]int, len(all))
	for i := range pace {
		pace[i] = 1 + random.IntN(4)
	}
	parks := random.IntN(2) == 0
	for running := len(all); running > 0; {
		i := random.IntN(len(all))
		j := all[i]
		if j.ended || random.IntN(pace[i]) > 0 {
			continue
		}
		if j.stream == nil {
			s, err := l.Open(t.Context(), j.planned, j.options)
			require.NoError(t, err)
			j.stream = s
			continue
		}
		switch {
		case parks && random.IntN(8) == 0 && !j.endsWithin():
			j.stream.Park(random.IntN(2) == 0)
			continue
		case random.IntN(60) == 0:
			j.left, j.ended = true, true
		case !j.step():
			j.ended = true
		}
		if j.ended {
			j.stream.Release()
			running--
		}
	}
}

// concurrently runs jobs at once. Some are canceled in the middle.
func concurrently(t *testing.T, random *rand.Rand, l *fanout.SharingLoader, all []*jobOf) {
	t.Helper()
	var group sync.WaitGroup
	for _, j := range all {
		ctx, cancel := context.WithCancel(t.Context())
		s, err := l.Open(ctx, j.planned, j.options)
		require.NoError(t, err)
		j.stream = s
		ends := -1
		if random.IntN(4) == 0 {
			ends = random.IntN(6)
		}
		parks := rand.New(rand.NewPCG(random.Uint64(), 1))
		group.Go(func() {
			defer cancel()
			defer s.Release()
			for j.step() {
				if ends == 0 {
					cancel()
					s.Next()
					j.left = true
					return
				}
				ends--
				if parks.IntN(12) == 0 && !j.endsWithin() {
					s.Park(false)
				}
			}
		})
	}
	group.Wait()
}

// endsWithin reports whether the job is a worker with a limit: if it is parked at its limit, it
// does not skip the steps of others before its next one.
func (j *jobOf) endsWithin() bool { return j.planned.Query.Limit > 0 && j.planned.Query.Every.Of > 1 }

// step reads one batch, and reports whether there was one.
func (j *jobOf) step() bool {
	if !j.begun {
		j.begun = true
		if j.stream.Begin() != nil {
			j.got.end(j.stream)
			return false
		}
		j.got.schema = j.stream.Schema().String()
	}
	if j.stream.Next() {
		j.got.note(j.stream)
		return true
	}
	j.got.end(j.stream)
	return false
}
