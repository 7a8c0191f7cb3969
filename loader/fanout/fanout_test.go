package fanout_test

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/fanout"
)

// TestEightJobsCostOneScan has eight jobs read at once: files are scanned as often as for one.
//
// spec: wire-39
func TestEightJobsCostOneScan(t *testing.T) {
	t.Parallel()
	k := newKit(t, 400, plenty, same)
	one := k.open(t.Context(), t, query(unchanged))
	want, err := rest(one)
	require.NoError(t, err)
	alone := one.Report()
	one.Release()
	scans := k.scans()

	var all []loader.Stream
	for range 8 {
		all = append(all, k.open(t.Context(), t, query(unchanged)))
	}
	got, errs := make([][]string, len(all)), make([]error, len(all))
	for i, s := range all { // each is in the group before one has ended
		got[i] = append(got[i], next(t, s))
	}
	require.Equal(t, fanout.SharingStats{Groups: 1, Members: 8, WindowBytes: k.sharer.Stats().WindowBytes, Shared: 7, Alone: map[fanout.Reason]int64{}}, k.sharer.Stats())
	var group sync.WaitGroup
	for i, s := range all {
		group.Go(func() {
			more, err := rest(s)
			got[i], errs[i] = append(got[i], more...), err
		})
	}
	group.Wait()
	read, shared := int64(0), int64(0)
	for i, s := range all {
		require.NoError(t, errs[i])
		require.Equal(t, want, got[i])
		report := s.Report()
		require.Equal(t, alone.Staging["f"].Counts, report.Staging["f"].Counts)
		require.Equal(t, alone.Staging["f"].BytesRead, report.Staging["f"].BytesRead+report.Staging["f"].Shared)
		require.InDelta(t, alone.Staging["f"].Amplification, report.Staging["f"].Amplification, 1e-9)
		read, shared = read+report.Staging["f"].BytesRead, shared+report.Staging["f"].Shared
		s.Release()
	}
	require.Equal(t, alone.Staging["f"].BytesRead, read, "each file is counted by the stream that read it")
	require.Equal(t, 7*read, shared)
	require.Equal(t, scans, k.scans())
	require.Zero(t, k.budget.Used())
}

// TestSlowStreamsDoNotDelayOthers reads one job to its end while another one reads nothing. That
// one continues alone with the very next row.
//
// spec: wire-40
func TestSlowStreamsDoNotDelayOthers(t *testing.T) {
	t.Parallel()
	k := newKit(t, 400, 2000, same)
	want := k.alone(t, query(unchanged))
	fast, slow := k.open(t.Context(), t, query(unchanged)), k.open(t.Context(), t, query(unchanged))
	got := []string{next(t, slow)}
	all, err := rest(fast)
	require.NoError(t, err)
	require.Equal(t, want, all)
	fast.Release()
	more, err := rest(slow)
	require.NoError(t, err)
	require.Equal(t, want, append(got, more...))
	require.Equal(t, int64(1), k.sharer.Stats().Alone[fanout.Behind])
	slow.Release()
	require.Zero(t, k.budget.Used())
}

// TestMembersJoinAgain has a job fall behind its group's window and meet the group again.
func TestMembersJoinAgain(t *testing.T) {
	t.Parallel()
	k := newKit(t, 400, 2000, same)
	want := k.alone(t, query(unchanged))
	fast, other, slow := k.open(t.Context(), t, query(unchanged)), k.open(t.Context(), t, query(unchanged)), k.open(t.Context(), t, query(unchanged))
	var got []string
	got = append(got, next(t, slow))
	for range 20 {
		next(t, fast)
		next(t, other)
	}
	got = append(got, next(t, slow))
	require.Equal(t, 2, k.sharer.Stats().Groups, "the slow one is behind")
	for len(got) < 20 {
		got = append(got, next(t, slow))
	}
	shared := k.sharer.Stats().Shared
	got = append(got, next(t, slow))
	require.Equal(t, next(t, fast), got[20])
	require.Equal(t, 1, k.sharer.Stats().Groups, "they have met")
	require.Equal(t, shared+1, k.sharer.Stats().Shared)
	more, err := rest(slow)
	require.NoError(t, err)
	require.Equal(t, want, append(got, more...))
	for _, s := range []loader.Stream{fast, other, slow} {
		s.Release()
	}
}

// TestResumedMembersRejoin kills a job and resumes it from its cursor: it takes its group's
// batches again.
func TestResumedMembersRejoin(t *testing.T) {
	t.Parallel()
	k := newKit(t, 400, plenty, same)
	want := k.alone(t, query(unchanged))
	one, two, killed := k.open(t.Context(), t, query(unchanged)), k.open(t.Context(), t, query(unchanged)), k.open(t.Context(), t, query(unchanged))
	for _, s := range []loader.Stream{one, two, killed} {
		for range 5 {
			next(t, s)
		}
	}
	at := killed.Cursor()
	killed.Release()
	next(t, one)
	resumed := k.open(t.Context(), t, query(func(q *dataset.Query) { q.Cursor = dataset.Cursors{at} }))
	k.scans()
	require.Equal(t, want[5], next(t, resumed))
	require.Empty(t, k.scans(), "it takes what the others have read")
	more, err := rest(resumed)
	require.NoError(t, err)
	require.Equal(t, want[6:], more)
	for _, s := range []loader.Stream{one, two, resumed} {
		s.Release()
	}
}

// blocked is a scan that waits until it is let go, or its context ends.
type blocked struct {
	reached chan struct{} // receives when a scan waits
	let     chan struct{} // closed to let scans go
}

func (b blocked) wait(ctx context.Context, table string) error {
	if table != "ml.train" {
		return nil
	}
	select {
	case b.reached <- struct{}{}:
	default:
	}
	select {
	case <-b.let:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// TestReadingContinuesWithoutItsReader ends the context of the member that reads for a group: the
// other one gets the batch.
//
// spec: wire-41
func TestReadingContinuesWithoutItsReader(t *testing.T) {
	t.Parallel()
	k := newKit(t, 100, plenty, same)
	want := k.alone(t, query(unchanged))
	b := blocked{reached: make(chan struct{}, 1), let: make(chan struct{})}
	k.set(b.wait)
	ctx, cancel := context.WithCancel(t.Context())
	killed, other := k.open(ctx, t, query(unchanged)), k.open(t.Context(), t, query(unchanged))
	var group sync.WaitGroup
	group.Go(func() { killed.Next() })
	<-b.reached
	var got []string
	var err error
	group.Go(func() { got, err = rest(other) })
	for k.sharer.Stats().Members < 2 {
		runtime.Gosched()
	}
	cancel()
	close(b.let)
	group.Wait()
	require.NoError(t, err)
	require.Equal(t, want, got)
	killed.Release()
	other.Release()
	require.Zero(t, k.budget.Used())
}

// TestWaitingEndsWithItsContext ends the context of a member that waits for another one's read.
// Then it ends the last one's, which ends the read.
func TestWaitingEndsWithItsContext(t *testing.T) {
	t.Parallel()
	k := newKit(t, 100, plenty, same)
	b := blocked{reached: make(chan struct{}, 1), let: make(chan struct{})}
	k.set(b.wait)
	gone := errors.New("gone")
	first, endFirst := context.WithCancelCause(t.Context())
	second, endSecond := context.WithCancelCause(t.Context())
	reads, waits := k.open(first, t, query(unchanged)), k.open(second, t, query(unchanged))
	var group sync.WaitGroup
	group.Go(func() { reads.Next() })
	<-b.reached
	done := make(chan bool)
	go func() { done <- waits.Next() }()
	for k.sharer.Stats().Members < 2 {
		runtime.Gosched()
	}
	endSecond(gone)
	require.False(t, <-done)
	require.ErrorIs(t, waits.Err(), gone)
	endFirst(gone)
	group.Wait()
	require.ErrorIs(t, reads.Err(), gone)
	reads.Release()
	waits.Release()
	require.Equal(t, 0, k.sharer.Stats().Groups)
	require.Zero(t, k.budget.Used())
}

// TestFailuresAreTheReadersAlone has a scan fail once: the member that read gets the error,
// the other one all rows.
//
// spec: wire-41
func TestFailuresAreTheReadersAlone(t *testing.T) {
	t.Parallel()
	k := newKit(t, 100, plenty, same)
	want := k.alone(t, query(unchanged))
	one, two := k.open(t.Context(), t, query(unchanged)), k.open(t.Context(), t, query(unchanged))
	got := []string{next(t, one)}
	require.Equal(t, got[0], next(t, two))
	broken := errors.New("broken")
	k.set(func(context.Context, string) error { return fault.New(fault.Unavailable, "%w", broken) })
	before, err := rest(one)
	require.ErrorIs(t, err, broken)
	k.set(nil)
	for _, b := range before {
		got = append(got, next(t, two))
		require.Equal(t, b, got[len(got)-1])
	}
	one.Release()
	more, err := rest(two)
	require.NoError(t, err)
	require.Equal(t, want, append(got, more...))
	two.Release()
	require.Zero(t, k.budget.Used())
}

// TestWindowsAreGivenUp has a reservation lack the room that a window takes: it gets it, and
// the budget does not count as pressed. The members continue.
func TestWindowsAreGivenUp(t *testing.T) {
	t.Parallel()
	k := newKit(t, 400, plenty, same)
	want := k.alone(t, query(unchanged))
	one, two := k.open(t.Context(), t, query(unchanged)), k.open(t.Context(), t, query(unchanged))
	got := []string{next(t, two)}
	for range 10 {
		next(t, one)
	}
	window := k.sharer.Stats().WindowBytes
	require.Positive(t, window)
	held, err := k.budget.Reserve("a test", plenty-k.budget.Used()+window/2)
	require.NoError(t, err)
	require.False(t, k.budget.Pressed())
	require.Zero(t, k.sharer.Stats().WindowBytes)
	next(t, one)
	require.Zero(t, k.sharer.Stats().WindowBytes, "memory is short")
	held.Release()
	more, err := rest(two)
	require.NoError(t, err)
	require.Equal(t, want, append(got, more...))
	one.Release()
	two.Release()
	require.Zero(t, k.budget.Used())
}

// TestLargerWindowsMakeRoom has two jobs of one sweep fill the window. Two of another one get a part
// of it.
func TestLargerWindowsMakeRoom(t *testing.T) {
	t.Parallel()
	k := newKit(t, 400, 4000, same)
	other := query(func(q *dataset.Query) { q.BatchRows = 4 })
	one, two := k.open(t.Context(), t, query(unchanged)), k.open(t.Context(), t, query(unchanged))
	three, four := k.open(t.Context(), t, other), k.open(t.Context(), t, other)
	next(t, two)
	for range 20 {
		next(t, one)
	}
	full := k.sharer.Stats().WindowBytes
	require.Greater(t, full, int64(3000))
	var got []string
	want := k.alone(t, other)
	got = append(got, next(t, four))
	for range 5 {
		next(t, three)
	}
	require.LessOrEqual(t, k.sharer.Stats().WindowBytes, int64(4000))
	shared := k.sharer.Stats().Shared
	for range 4 {
		got = append(got, next(t, four))
	}
	require.Equal(t, shared+4, k.sharer.Stats().Shared)
	require.Equal(t, want[:5], got)
	for _, s := range []loader.Stream{one, two, three, four} {
		s.Release()
	}
	require.Zero(t, k.sharer.Stats().WindowBytes)
	require.Zero(t, k.budget.Used())
}

// TestOneMemberKeepsNoWindow checks that a stream alone keeps its first batches only until they
// take a quarter of the window, and a resumed one none.
func TestOneMemberKeepsNoWindow(t *testing.T) {
	t.Parallel()
	k := newKit(t, 400, 4000, same)
	s := k.open(t.Context(), t, query(unchanged))
	next(t, s)
	first := k.sharer.Stats().WindowBytes
	require.Positive(t, first)
	for range 10 {
		next(t, s)
		require.LessOrEqual(t, k.sharer.Stats().WindowBytes, int64(1000))
	}
	require.Zero(t, k.sharer.Stats().WindowBytes)
	require.True(t, s.Park(false))
	require.Zero(t, k.budget.Used())
	next(t, s)
	require.Zero(t, k.sharer.Stats().WindowBytes, "it was parked")
	s.Release()
}

// TestStepsOfNoMemberAreNotCut has one of two DataLoader workers read first. The other one finds
// its first step skipped.
func TestStepsOfNoMemberAreNotCut(t *testing.T) {
	t.Parallel()
	k := newKit(t, 400, plenty, same)
	every := func(step int) dataset.Query {
		return query(func(q *dataset.Query) { q.Every = dataset.Every{Step: step, Of: 2} })
	}
	want := [][]string{k.alone(t, every(0)), k.alone(t, every(1))}
	one, two := k.open(t.Context(), t, every(0)), k.open(t.Context(), t, every(1))
	got := [][]string{{next(t, one), next(t, one)}, {next(t, two)}}
	require.Equal(t, int64(1), k.sharer.Stats().Alone[fanout.Skipped])
	for i, s := range []loader.Stream{one, two} {
		more, err := rest(s)
		require.NoError(t, err)
		require.Equal(t, want[i], append(got[i], more...))
		s.Release()
	}
}

// TestMinMatchIsCheckedForEachStream has a stream of all rows fail, and one that began shortly
// before the end continue.
func TestMinMatchIsCheckedForEachStream(t *testing.T) {
	t.Parallel()
	k := newKit(t, 12_000, plenty, func(k *kit) { k.BatchRows, k.minimum = 1000, 0.9 })
	large := func(cursor ...dataset.Cursor) dataset.Query {
		return query(func(q *dataset.Query) { q.Lanes, q.BatchRows, q.Cursor = 1, 500, cursor })
	}
	all, other := k.open(t.Context(), t, large()), k.open(t.Context(), t, large())
	for range 14 {
		next(t, all)
		next(t, other)
	}
	late := k.open(t.Context(), t, large(all.Cursor()))
	_, err := rest(late)
	require.NoError(t, err)
	for _, s := range []loader.Stream{all, other} {
		_, err = rest(s)
		require.Equal(t, fault.Invalid, fault.KindOf(err))
		require.ErrorContains(t, err, "where min_match asks for 0.9")
		s.Release()
	}
	require.Positive(t, k.sharer.Stats().Shared)
	late.Release()
}

// TestFastStreamsGatherLess has a stream alone read 24 MB of batches. It keeps them if it takes a second for each,
// and if it takes no time, only until they have 16 MiB.
func TestFastStreamsGatherLess(t *testing.T) {
	t.Parallel()
	const least, all = 16 << 20, 20 << 20
	for _, pause := range []time.Duration{0, time.Second} {
		at := time.Unix(0, 0)
		k := newKit(t, 12_000, plenty, func(k *kit) {
			k.BatchRows, k.length, k.now = 1000, 2000, func() time.Time { return at }
		})
		s := k.open(t.Context(), t, query(func(q *dataset.Query) { q.Lanes, q.BatchRows = 1, 500 }))
		at = at.Add(time.Minute) // until the first batch
		most, last := int64(0), int64(0)
		for s.Next() {
			at = at.Add(pause)
			if last = k.sharer.Stats().WindowBytes; s.Cursor().Given < 12_000 {
				most = max(most, last)
			}
		}
		require.NoError(t, s.Err())
		if pause > 0 {
			require.Greater(t, most, int64(all))
		} else {
			require.InDelta(t, least, most, 2<<20)
			require.Zero(t, last)
		}
		s.Release()
		require.Zero(t, k.budget.Used())
	}
}
