package trace_test

import (
	"context"
	"encoding/hex"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/trace"
)

// kit is a tracer whose clock moves by a second at each reading, and the traces that it exports.
type kit struct {
	*trace.Tracer
	mu     sync.Mutex
	ticks  int
	traces []trace.Trace
}

func newKit(every int64) *kit {
	k := &kit{}
	k.Tracer = trace.New(trace.Options{Every: every, Clock: k.now, Sink: k, Spans: 1 << 20})
	return k
}

func (k *kit) now() time.Time {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.ticks++
	return time.Unix(int64(k.ticks), 0)
}

// Take implements trace.Sink.
func (k *kit) Take(of trace.Trace) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.traces = append(k.traces, of)
}

// tree returns the kinds of the spans of a trace, each with the kind of its parent.
func tree(of trace.Trace) [][2]string {
	kinds := map[trace.SpanID]string{}
	for _, s := range of.Spans {
		kinds[s.ID] = s.Kind.String()
	}
	var out [][2]string
	for _, s := range of.Spans {
		out = append(out, [2]string{kinds[s.Parent], s.Kind.String()})
	}
	return out
}

const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

// TestIdsFollowFromTheParent checks the vectors of docs/spec/trace.md.
//
// spec: trace-3, trace-4
func TestIdsFollowFromTheParent(t *testing.T) {
	t.Parallel()
	p, ok := trace.ParseParent(parent)
	require.True(t, ok)
	for _, of := range []struct {
		step        int64
		shard       int
		trace, span string
	}{
		{100, 0, "719d1603f5a4f11275cf08f07842ee4d", "625bdf8cb858eafb"},
		{100, 1, "719d1603f5a4f11275cf08f07842ee4d", "78abfdf5fb418f76"},
		{1 << 40, 0, "fa01bcdd5fcf63f833297a286633a3fd", "baeacf1d7a1319e6"},
	} {
		id := trace.StepTrace(p.Link, of.step)
		span := trace.StepSpan(id, "3f2a", of.shard)
		require.Equal(t, of.trace, hex.EncodeToString(id[:]))
		require.Equal(t, of.span, hex.EncodeToString(span[:]))
	}
}

// TestParents parses headers.
//
// spec: trace-2
func TestParents(t *testing.T) {
	t.Parallel()
	for header, sampled := range map[string]bool{
		parent: true,
		"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00":      false,
		"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-03":      true,
		"cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more": true,
	} {
		p, ok := trace.ParseParent(header)
		require.True(t, ok, header)
		require.Equal(t, sampled, p.Sampled, header)
	}
	for _, header := range []string{
		"", "00", parent + "-more", "ff" + parent[2:], "0x" + parent[2:],
		"00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01", "00-00000000000000000000000000000000-b7ad6b7169203331-01",
		"00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01", "00-0af7651916cd43dd8448eb211c8031-b7ad6b7169203331-01",
		"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-1",
	} {
		_, ok := trace.ParseParent(header)
		require.False(t, ok, header)
	}
}

// TestEachNthStepIsTraced reads steps of a stream that resumes, and of a worker.
//
// spec: trace-1
func TestEachNthStepIsTraced(t *testing.T) {
	t.Parallel()
	for _, of := range []struct {
		first, by, every int64
		want             []int64
	}{
		{1, 1, 5, []int64{5, 10}}, {8, 1, 5, []int64{10, 15}}, {2, 4, 5, []int64{10, 30}}, {3, 2, 1, []int64{3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23}},
	} {
		k := newKit(of.every)
		_, steps := k.Stream(t.Context(), trace.StreamOptions{First: of.first, By: of.by, Parent: parent})
		for i := range int64(11) {
			steps.Next(of.first+i*of.by, 8, 64)
		}
		steps.End(nil)
		var got []int64
		for _, one := range k.traces {
			for _, a := range one.Spans[0].Attributes {
				if a.Key == trace.Number {
					got = append(got, a.Number)
				}
			}
			p, _ := trace.ParseParent(parent)
			require.Equal(t, trace.StepTrace(p.Link, got[len(got)-1]), one.ID)
			require.Equal(t, []trace.Link{p.Link}, one.Spans[0].Links)
		}
		require.Equal(t, of.want, got)
	}
}

// TestWorkAheadIsLinked has a stream use units of work that were done before its step began.
//
// spec: trace-6
func TestWorkAheadIsLinked(t *testing.T) {
	t.Parallel()
	k := newKit(2)
	ctx, steps := k.Stream(t.Context(), trace.StreamOptions{First: 1, By: 1})
	track := trace.Of(ctx)
	ahead, scan := trace.Ahead(ctx, trace.Decode)
	unit := func() *trace.Work {
		trace.Of(ahead).Begin(trace.Request).End(nil)
		return scan.Finish(nil, trace.Attribute{Key: trace.Rows, Number: 3})
	}
	first, second, third := unit(), unit(), unit()
	late := trace.Of(ahead).Begin(trace.Request) // ends in the fourth unit
	track.Use(first)
	steps.Next(1, 1, 1)
	require.Empty(t, k.traces, "the step is not traced")
	join := track.Enter(trace.Join)
	track.Use(first) // it is gone
	track.Use(second)
	track.Use(third)
	track.Begin(trace.Request).End(errors.New("refused"))
	join.End(nil)
	track.Enter(trace.Cut).End(nil)
	steps.Waited("memory", time.Unix(1, 0), time.Unix(2, 0))
	steps.Waited("memory", time.Unix(2, 0), time.Unix(3, 0)) // the same wait
	steps.Waited("trainer", time.Unix(3, 0), time.Unix(4, 0))
	steps.Next(2, 1, 1)
	require.Len(t, k.traces, 3)
	for _, one := range k.traces[:2] {
		require.Equal(t, [][2]string{{"", "penstock.decode"}, {"penstock.decode", "penstock.request"}}, tree(one))
		require.Contains(t, k.traces[2].Spans[0].Links, trace.Link{Trace: one.ID, Span: one.Spans[0].ID})
	}
	step := k.traces[2]
	require.Len(t, step.Spans[0].Links, 2)
	require.Equal(t, [][2]string{
		{"", "penstock.step"},
		{"penstock.step", "penstock.join"},
		{"penstock.join", "penstock.request"},
		{"penstock.step", "penstock.cut"},
		{"penstock.step", "penstock.wait"},
		{"penstock.step", "penstock.wait"},
	}, tree(step))
	require.True(t, step.Spans[2].Failed)
	require.Equal(t, 2*time.Second, step.Spans[4].End.Sub(step.Spans[4].Begin))
	late.End(nil)
	steps.Next(3, 1, 1)
	track.Use(scan.Finish(nil))
	require.Equal(t, [][2]string{{"", "penstock.decode"}, {"penstock.decode", "penstock.request"}}, tree(k.traces[3]))
}

// TestUnitsContainTheUnitsThatTheyUse has a build use units of a scan.
func TestUnitsContainTheUnitsThatTheyUse(t *testing.T) {
	t.Parallel()
	k := newKit(1)
	ctx, steps := k.Stream(t.Context(), trace.StreamOptions{First: 1, By: 1})
	build, built := trace.Ahead(ctx, trace.Build)
	scan, scanned := trace.Ahead(build, trace.Decode)
	for range 2 {
		trace.Of(scan).Begin(trace.Request).End(nil)
		trace.Of(build).Use(scanned.Finish(nil))
	}
	trace.Of(ctx).Use(built.Finish(errors.New("full")))
	steps.End(errors.New("full"))
	require.Len(t, k.traces, 2)
	require.Equal(t, [][2]string{
		{"", "penstock.build"},
		{"penstock.build", "penstock.decode"},
		{"penstock.decode", "penstock.request"},
		{"penstock.build", "penstock.decode"},
		{"penstock.decode", "penstock.request"},
	}, tree(k.traces[0]))
	require.True(t, k.traces[0].Spans[0].Failed)
	require.True(t, k.traces[1].Spans[0].Failed)
}

// TestLongTracesAreBounded records more spans than a trace may have.
func TestLongTracesAreBounded(t *testing.T) {
	t.Parallel()
	k := newKit(1)
	ctx, steps := k.Stream(t.Context(), trace.StreamOptions{First: 1, By: 1})
	for range 200 {
		trace.Of(ctx).Enter(trace.Join).End(nil)
	}
	steps.Next(1, 1, 1)
	require.Len(t, k.traces[0].Spans, 128)
	require.Contains(t, k.traces[0].Spans[0].Attributes, trace.Attribute{Key: trace.Dropped, Number: 73})
}

// TestReadersRecordForTheStreamThatTheyServe has a reader work for two streams in turn.
func TestReadersRecordForTheStreamThatTheyServe(t *testing.T) {
	t.Parallel()
	k := newKit(1)
	one, first := k.Stream(t.Context(), trace.StreamOptions{First: 1, By: 1})
	two, second := k.Stream(t.Context(), trace.StreamOptions{First: 1, By: 1})
	reader := trace.Apart(one)
	trace.Of(reader).Enter(trace.Join).End(nil) // for nobody
	end := trace.Of(one).Lend(trace.Of(reader))
	trace.Of(reader).Enter(trace.Join).End(nil)
	end()
	trace.Of(two).Refer(trace.Of(one).Here())
	trace.Of(one).Refer(trace.Of(one).Here())
	first.Next(1, 1, 1)
	second.Next(1, 1, 1)
	require.Equal(t, [][2]string{{"", "penstock.step"}, {"penstock.step", "penstock.join"}}, tree(k.traces[0]))
	require.Empty(t, k.traces[0].Spans[0].Links)
	require.Equal(t, []trace.Link{{Trace: k.traces[0].ID, Span: k.traces[0].Spans[0].ID}}, k.traces[1].Spans[0].Links)
}

// TestNothingIsRecorded calls everything for streams that are not traced.
//
// spec: trace-2
func TestNothingIsRecorded(t *testing.T) {
	t.Parallel()
	var none *trace.Tracer
	k := newKit(1)
	unsampled := parent[:len(parent)-1] + "0"
	for _, by := range []*trace.Tracer{none, k.Tracer} {
		ctx, steps := by.Stream(t.Context(), trace.StreamOptions{First: 1, By: 1, Parent: unsampled})
		require.Nil(t, steps)
		require.Nil(t, trace.Of(ctx))
		require.Equal(t, ctx, trace.Apart(ctx))
		ahead, track := trace.Ahead(ctx, trace.Decode)
		require.Equal(t, ctx, ahead)
		track.Restart()
		trace.Of(ctx).Use(track.Finish(nil))
		trace.Of(ctx).Enter(trace.Join).End(nil)
		trace.Of(ctx).Begin(trace.Request).End(nil)
		trace.Of(ctx).Refer(trace.Of(context.Background()).Here())
		trace.Of(ctx).Lend(trace.Of(ctx))()
		steps.Next(1, 1, 1)
		steps.End(nil)
	}
	require.Empty(t, k.traces)
}

// TestStreamsWithoutParentHaveTracesOfTheirOwn checks that streams whose steps have the same numbers do not share traces: streams of
// parts, and streams whose calls name no parent.
//
// spec: trace-5
func TestStreamsWithoutParentHaveTracesOfTheirOwn(t *testing.T) {
	t.Parallel()
	k := newKit(1)
	for _, o := range []trace.StreamOptions{{First: 1, By: 1, Parent: parent, Part: true}, {First: 1, By: 1, Parent: parent, Part: true}, {First: 1, By: 1}, {First: 1, By: 1}} {
		_, steps := k.Stream(t.Context(), o)
		steps.Next(1, 1, 1)
	}
	seen := map[trace.ID]bool{}
	for _, one := range k.traces {
		seen[one.ID] = true
		require.Empty(t, one.Spans[0].Links)
	}
	require.Len(t, seen, 4)
}

// TestFilesHaveNoFolders checks that the names of folders, which may have values of partitions, are not recorded.
func TestFilesHaveNoFolders(t *testing.T) {
	t.Parallel()
	require.Equal(t, trace.Attribute{Key: trace.File, Text: "0.parquet"}, trace.FileOf("s3://lake/t/country=CH/0.parquet"))
}

// TestNamesDiffer checks the words of spans and attributes.
func TestNamesDiffer(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, k := range trace.Kinds() {
		require.NotEmpty(t, k.String())
		require.False(t, seen[k.String()])
		seen[k.String()] = true
		require.Equal(t, k == trace.Step, k.Serves())
	}
	require.Empty(t, trace.Kind(99).String())
	require.False(t, trace.Kind(99).Serves())
	require.True(t, trace.Counts(trace.Rows))
	require.False(t, trace.Counts(trace.File))
	require.False(t, trace.Counts("other"))
}
