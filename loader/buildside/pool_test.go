package buildside

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/spool"
	"github.com/penstock/penstock/joiner"
	"github.com/penstock/penstock/joiner/joinertest"
	"github.com/penstock/penstock/joiner/spill"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/plan"
	"github.com/penstock/penstock/loader/resolve"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// planOf is a plan of ranges that each need their own file group of one staging table, with
// files of a size. The training table has no buckets.
func planOf(bytes ...int64) *plan.Plan {
	p := &plan.Plan{Staging: []plan.Staging{{}}, Planned: plan.Columns{Staging: [][]int{nil}}}
	p.Relation = &resolve.Relation{Training: &catalog.Table{}, Staging: []resolve.Staging{{Pinned: &catalog.Table{}}}}
	for i, n := range bytes {
		file := catalog.File{Location: fmt.Sprintf("file:///%d", i), Bytes: n, Rows: 3}
		p.Staging[0].Groups = append(p.Staging[0].Groups, plan.FileGroup{Files: []catalog.File{file}, Bytes: n, Rows: 3})
		p.Splits = append(p.Splits, plan.Split{Groups: []int{i}, Files: []plan.FileRange{{}}})
	}
	return p
}

// groupsOf returns the groups of a stream. Each reading of one begins with
// before, which may fail it; nil is none.
func groupsOf(t *testing.T, pool *Pool, p *plan.Plan, before func(ctx context.Context) error) *Groups {
	t.Helper()
	rows := joinertest.Table{Name: "s", Fields: joinertest.Columns(t, "k long"), Rows: joinertest.Parse("1, 2, 3")}
	return pool.Groups(Input{
		Name: "s", Plan: p, Spec: joiner.BuildSpec{Name: "s"},
		Staging: func(plan.Source) joiner.Input {
			in := rows.Input(t, memory.DefaultAllocator, []int{0}, []int{0})
			open := in.Open
			in.Open = func(ctx context.Context) (array.RecordReader, error) {
				if before != nil {
					if err := before(ctx); err != nil {
						return nil, err
					}
				}
				return open(ctx)
			}
			return in
		},
		Training: func(plan.Range) joiner.Input { return joiner.Input{} },
	})
}

// TestWaitingForAPrefetchedBuildCountsAsBlocked tests a deadlock: the younger of two streams
// builds a group and needs memory that the older one holds. The older one has prefetched the
// same group, so it waits for the younger one's build when it reaches its range. If that
// wait did not count as blocked, the younger stream would retry until the budget times out.
func TestWaitingForAPrefetchedBuildCountsAsBlocked(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := budget.New(1 << 20)
		pool, p, started := New(Options{Options: joiner.Options{Budget: b}}), planOf(10), time.Now()
		older, olderStream := b.Enter(t.Context(), "")
		younger, youngerStream := b.Enter(t.Context(), "")
		held, err := b.Reserve("of the older stream", 600<<10)
		require.NoError(t, err)
		var group sync.WaitGroup
		begin := make(chan struct{})
		group.Go(func() {
			defer youngerStream.Release()
			groups := groupsOf(t, pool, p, func(ctx context.Context) error {
				<-begin
				return b.Await(ctx, "the rows", 500<<10)
			})
			defer groups.Close()
			r := groups.Reference(plan.Range{})
			defer r.Release()
			_, err := r.Probeable(younger)
			if fault.KindOf(err) != fault.Exhausted || time.Since(started) > 0 {
				t.Errorf("the younger stream got %v after %s", err, time.Since(started))
			}
		})
		synctest.Wait()
		group.Go(func() {
			defer olderStream.Release()
			groups := groupsOf(t, pool, p, nil)
			defer groups.Close()
			r := groups.Reference(plan.Range{})
			defer r.Release()
			r.Prefetch(older)
			synctest.Wait()
			close(begin)
			synctest.Wait()
			made, err := r.Probeable(older)
			if err != nil {
				t.Errorf("the older stream got %v", err)
				return
			}
			made.Release()
		})
		group.Wait()
		held.Release()
		require.Zero(t, b.Used())
	})
}

// TestPrefetchingStreamIsNotBlocked checks that a stream that prefetches a group itself does
// not count as blocked when one of its lanes reaches a range of the group, even another lane
// than the one it is prefetched for. The stream continues by itself, so another stream keeps
// waiting for its memory.
func TestPrefetchingStreamIsNotBlocked(t *testing.T) {
	t.Parallel()
	for name, other := range map[string]bool{"the lane that it is built for": false, "another lane": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := budget.New(1 << 20)
				one, oneStream := b.Enter(t.Context(), "")
				waits, waitingStream := b.Enter(t.Context(), "")
				defer waitingStream.Release()
				held, err := b.Reserve("of the one", 600<<10)
				require.NoError(t, err)
				begin := make(chan struct{})
				groups := groupsOf(t, New(Options{Options: joiner.Options{Budget: b}}), planOf(10), func(context.Context) error {
					<-begin
					return nil
				})
				ahead := groups.Reference(plan.Range{})
				asks := ahead
				if other {
					asks = groups.Reference(plan.Range{})
				}
				ahead.Prefetch(one)
				asked, waited := make(chan error, 1), make(chan error, 1)
				go func() {
					made, err := asks.Probeable(one)
					if err == nil {
						made.Release()
					}
					asked <- err
				}()
				go func() { waited <- b.Await(waits, "of the other", 500<<10) }()
				synctest.Wait()
				if len(waited) > 0 {
					t.Error("the other stream does not wait")
				}
				close(begin)
				require.NoError(t, <-asked)
				if other {
					asks.Release()
				}
				ahead.Release()
				groups.Close()
				held.Release()
				oneStream.Release()
				require.NoError(t, <-waited)
				require.Zero(t, b.Used())
			})
		})
	}
}

// TestPrefetchedBuildSideIsReleasedUnderPressure checks that a prefetched build side is
// released under budget pressure until its range begins, and not after that. It is then
// built again when it is needed.
//
// spec: join-63
func TestPrefetchedBuildSideIsReleasedUnderPressure(t *testing.T) {
	t.Parallel()
	b := budget.New(1 << 20)
	built := 0
	groups := groupsOf(t, New(Options{Options: joiner.Options{Budget: b}}), planOf(10), func(context.Context) error {
		built++
		return nil
	})
	r := groups.ReferenceAhead(plan.Range{})
	r.Prefetch(t.Context())
	require.True(t, r.WaitPrefetch())
	require.Positive(t, b.Used())
	all, err := b.Reserve("all", 1<<20)
	require.NoError(t, err)
	all.Release()

	r.Pin()
	made, err := r.Probeable(t.Context())
	require.NoError(t, err)
	made.Release()
	require.Equal(t, 2, built)
	_, err = b.Reserve("all", 1<<20)
	require.Equal(t, fault.Exhausted, fault.KindOf(err), "%v", err)

	other := groups.ReferenceAhead(plan.Range{})
	r.Release()
	all, err = b.Reserve("all", 1<<20)
	require.NoError(t, err, "the other range has not begun")
	all.Release()
	other.Release()
	groups.Close()
	require.Zero(t, b.Used())
}

// TestPrefetchedBuildSideOutlivesItsReference checks that a prefetched build side stays if
// another range refers to the same group, and that no partition of a group on disk is left
// behind, whether the other range is read or not.
func TestPrefetchedBuildSideOutlivesItsReference(t *testing.T) {
	t.Parallel()
	for _, asks := range []bool{true, false} {
		outlive(t, asks)
	}
}

func outlive(t *testing.T, asks bool) {
	t.Helper()
	place, err := spool.Open(spool.Options{Folder: t.TempDir()})
	require.NoError(t, err)
	b, p := budget.New(64<<20), planOf(10)
	pool := New(Options{Options: joiner.Options{Budget: b}, Disk: func(what string) (spill.Store, error) { return place.Create(what) }})
	key := catalog.Field{ID: 1, Name: "k"}
	p.Relation.Training.Specs = map[int]catalog.Spec{0: {{ID: 1000, Source: 1, Name: "b", Transform: catalog.Transform{Kind: catalog.Bucket, N: 2}}}}
	p.Relation.Staging[0].Keys = []resolve.Key{{Training: key, Staging: key}}
	p.Splits = nil
	for i := range 2 {
		p.Splits = append(p.Splits, plan.Split{Groups: []int{0}, Files: []plan.FileRange{{File: catalog.File{Partition: []any{int64(i)}}}}})
	}
	tries, onDisk := 0, make(chan struct{})
	groups := groupsOf(t, pool, p, func(context.Context) error {
		if tries++; tries == 1 {
			return fault.New(fault.Exhausted, "no memory")
		}
		if tries == 2 {
			<-onDisk
		}
		return nil
	})
	coming := groups.ReferenceAhead(plan.Range{Split: 0})
	coming.Prefetch(t.Context())
	open := groups.Reference(plan.Range{Split: 1})
	close(onDisk)
	coming.Release()
	if asks {
		made, err := open.Probeable(t.Context())
		require.NoError(t, err)
		made.Release()
		require.Equal(t, 2, tries, "in memory, and on disk")
	}
	open.Release()
	groups.Close()
	require.Zero(t, place.Stats().Files)
	require.Zero(t, b.Used())
}

// TestOnlyAFullDiskReleasesBuildSidesOnDisk checks that an unused build side on local disk
// is released if the disk has no room for one that a row needs. It stays if only memory is
// short, or room for prefetched build sides.
//
// spec: join-67, join-90
func TestOnlyAFullDiskReleasesBuildSidesOnDisk(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ diskFull, ahead, goes bool }{
		"memory is full":        {},
		"disk is full":          {diskFull: true, goes: true},
		"disk is full, ahead":   {diskFull: true, ahead: true},
		"memory is full, ahead": {ahead: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			place, err := spool.Open(spool.Options{Folder: t.TempDir()})
			require.NoError(t, err)
			full := &atomic.Bool{}
			b := budget.New(1 << 20)
			pool := New(Options{Options: joiner.Options{Budget: b}, Disk: func(what string) (spill.Store, error) {
				f, err := place.Create(what)
				return limited{f, full}, err
			}})
			larger := int64(1 << 20) // than the budget, as rows in memory
			first := groupsOf(t, pool, planOf(larger), nil)
			first.Expect(plan.Range{})
			r := first.Reference(plan.Range{})
			probe(t, r)
			r.Release() // it is unused now

			p := planOf(larger, larger)
			var once sync.Once
			second := groupsOf(t, pool, p, func(context.Context) error {
				if !c.diskFull {
					return fault.New(fault.Exhausted, "no memory for the rows")
				}
				once.Do(func() { full.Store(true) })
				return nil
			})
			r = second.Reference(plan.Range{Split: 1})
			if c.ahead {
				r.Prefetch(t.Context())
				require.True(t, r.WaitPrefetch())
			} else if c.goes {
				probe(t, r)
			} else {
				_, err := r.Probeable(t.Context())
				require.Equal(t, fault.Exhausted, fault.KindOf(err))
			}
			require.Equal(t, !c.goes, pool.shared.EvictDisk(), "whether it still lay there")
			r.Release()
			second.Close()
			first.MarkReached(plan.Range{})
			first.Close()
			require.Zero(t, place.Stats().Files)
			require.Zero(t, b.Used())
		})
	}
}

// limited is a store that has no room while it is full, until a store is released.
type limited struct {
	*spool.File
	full *atomic.Bool
}

func (l limited) Append(b arrow.RecordBatch) (int, error) {
	if l.full.Load() {
		return 0, fault.New(fault.Exhausted, "the disk is full")
	}
	return l.File.Append(b)
}

func (l limited) Release() {
	l.full.Store(false)
	l.File.Release()
}

// probe asks for what a range is joined with, and gives it back.
func probe(t *testing.T, r *Reference) {
	t.Helper()
	made, err := r.Probeable(t.Context())
	require.NoError(t, err)
	made.Release()
}

// TestKeptBuildSidesServeLaterStreams until a reservation lacks room, which does not count as
// pressure. Kept ones count as free where memory must be plentiful, and a prefetch is one such place.
//
// spec: join-96
func TestKeptBuildSidesServeLaterStreams(t *testing.T) {
	t.Parallel()
	b, p := budget.New(1<<20), planOf(10, 20)
	pool := New(Options{Options: joiner.Options{Budget: b}, Keep: 1 << 19})
	read := 0
	stream := func() {
		groups := groupsOf(t, pool, p, func(context.Context) error { read++; return nil })
		for split := range p.Splits {
			r := groups.Reference(plan.Range{Split: split})
			probe(t, r)
			r.Release()
		}
		groups.Close()
	}
	stream()
	require.Equal(t, 2, read)
	require.EqualValues(t, 2, pool.Kept().Values)
	require.Equal(t, b.Used(), b.Idle())
	stream()
	require.Equal(t, 2, read)
	require.EqualValues(t, 2, pool.Kept().Hits)

	other := groupsOf(t, pool, planOf(10), nil)
	other.input.Identity = "another snapshot"
	r := other.Reference(plan.Range{})
	require.Zero(t, b.InUse(), "nothing is shared")
	r.Release()
	other.Close()

	all, err := b.Reserve("rows", 1<<20)
	require.NoError(t, err)
	require.False(t, b.Pressed())
	require.Zero(t, b.Idle())
	all.Release()
	stream()
	require.Equal(t, 4, read)
	require.Positive(t, pool.DropKept())
	require.Zero(t, b.Used())
}

// TestKeptBuildSidesReadIntoSpareRoom: the scans for build sides that will be kept may fill the cache when they read columns for the
// first time, since no second scan will read these.
//
// spec: cache-13
func TestKeptBuildSidesReadIntoSpareRoom(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		keep          int64
		unkept, spare bool
	}{{1 << 19, false, true}, {1 << 19, true, false}, {0, false, false}} {
		pool := New(Options{Options: joiner.Options{Budget: budget.New(1 << 20)}, Keep: c.keep})
		groups := groupsOf(t, pool, planOf(10), nil)
		groups.input.Unkept = c.unkept
		var read []bool
		rows := groups.input.Staging
		groups.input.Staging = func(source plan.Source) joiner.Input {
			read = append(read, source.Spare)
			return rows(source)
		}
		r := groups.Reference(plan.Range{})
		probe(t, r)
		r.Release()
		groups.Close()
		pool.DropKept()
		require.Equal(t, []bool{c.spare}, read)
	}
}
