package cache_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/cache"
	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/fault"
)

// counted is a value that holds bytes of a budget, or of disk, until its last reference is
// released.
type counted struct {
	mu         sync.Mutex
	references int
	size       cache.Size
	held       *budget.Reservation
}

func (c *counted) Retain() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.references++
}

func (c *counted) Release() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.references--
	if c.references == 0 && c.held != nil {
		c.held.Release()
	}
}

func (c *counted) Size() cache.Size { return c.size }

// loads loads values of a size, and counts how often.
type loads struct {
	budget *budget.Budget
	size   cache.Size
	times  int
}

func (l *loads) load(context.Context) (*counted, error) {
	l.times++
	held, err := l.budget.Reserve("a value", l.size.Memory)
	if err != nil {
		return nil, err
	}
	return &counted{references: 1, size: l.size, held: held}, nil
}

// get uses a value once, and fails the test if it cannot.
func get(t *testing.T, n *cache.Need[*counted], l *loads) {
	t.Helper()
	defer n.Pin().Release()
	v, err := n.Get(context.Background(), l.load)
	require.NoError(t, err)
	v.Release()
}

func TestAValueEndsWithTheLastNeed(t *testing.T) {
	t.Parallel()
	b := budget.New(1000)
	s := cache.NewShared[*counted](b)
	l := &loads{budget: b, size: cache.Size{Memory: 10}}
	one, two := s.Need("k"), s.Need("k")
	get(t, one, l)
	get(t, two, l)
	one.Close()
	one.Close()
	require.EqualValues(t, 10, b.Used(), "it is still needed")
	again := s.Need("k")
	get(t, again, l)
	require.Equal(t, 1, l.times)
	again.Close()
	two.Close()
	require.Zero(t, b.Used())
	after := s.Need("k")
	defer after.Close()
	get(t, after, l)
	require.Equal(t, 2, l.times)
}

// TestAReferenceOutlivesTheNeed: a reference keeps its value.
func TestAReferenceOutlivesTheNeed(t *testing.T) {
	t.Parallel()
	b := budget.New(1000)
	l := &loads{budget: b, size: cache.Size{Memory: 10}}
	n := cache.NewShared[*counted](b).Need("k")
	v, err := n.Get(context.Background(), l.load)
	require.NoError(t, err)
	n.Close()
	require.EqualValues(t, 10, b.Used())
	v.Release()
	require.Zero(t, b.Used())
}

// TestPressureTakesTheLongestUnused: what is used stays, and no more goes than
// must.
func TestPressureTakesTheLongestUnused(t *testing.T) {
	t.Parallel()
	b := budget.New(100)
	s := cache.NewShared[*counted](b)
	l := &loads{budget: b, size: cache.Size{Memory: 10}}
	var needs []*cache.Need[*counted]
	for _, key := range []string{"a", "b", "c", "d"} {
		n := s.Need(key)
		get(t, n, l)
		needs = append(needs, n)
	}
	pin := needs[0].Pin()
	defer func() {
		pin.Release()
		for _, n := range needs {
			n.Close()
		}
	}()
	more, err := b.Reserve("more", 75)
	require.NoError(t, err)
	require.EqualValues(t, 95, b.Used(), "b and c went")
	more.Release()
	for i, read := range []bool{false, true, true, false} {
		before := l.times
		v, err := needs[i].Get(context.Background(), l.load)
		require.NoError(t, err)
		v.Release()
		require.Equal(t, read, l.times > before, "value %d", i)
	}
}

// TestUnusedValuesTakeHalfOfTheBudget: above that, a value goes with its last
// use.
func TestUnusedValuesTakeHalfOfTheBudget(t *testing.T) {
	t.Parallel()
	b := budget.New(100)
	s := cache.NewShared[*counted](b)
	l := &loads{budget: b, size: cache.Size{Memory: 30}}
	one, two := s.Need("1"), s.Need("2")
	get(t, one, l)
	require.EqualValues(t, 30, b.Used())
	get(t, two, l)
	require.EqualValues(t, 30, b.Used(), "the longest unused one went")
	get(t, two, l)
	require.Equal(t, 2, l.times)
	one.Close()
	two.Close()
	require.Zero(t, b.Used())
}

// TestDiskAndMemoryAreEvictedApart: memory that is asked for does not cost what
// lies on disk, and the other way round.
func TestDiskAndMemoryAreEvictedApart(t *testing.T) {
	t.Parallel()
	b := budget.New(100)
	s := cache.NewShared[*counted](b)
	memory, disk := &loads{budget: b, size: cache.Size{Memory: 30}}, &loads{budget: b, size: cache.Size{Disk: 30}}
	onDisk, inMemory := s.Need("disk"), s.Need("memory")
	get(t, onDisk, disk)
	get(t, inMemory, memory)
	all, err := b.Reserve("all", 100)
	require.NoError(t, err)
	all.Release()
	get(t, onDisk, disk)
	require.Equal(t, 1, disk.times)
	get(t, inMemory, memory)
	require.Equal(t, 2, memory.times)
	require.True(t, s.EvictDisk())
	require.False(t, s.EvictDisk())
	get(t, inMemory, memory)
	require.Equal(t, 2, memory.times)
	get(t, onDisk, disk)
	require.Equal(t, 2, disk.times)
	pin := onDisk.Pin()
	require.False(t, s.EvictDisk(), "it is pinned")
	pin.Release()
	onDisk.Close()
	inMemory.Close()
}

// TestNextCallerLoadsAfterFailedLoad checks that the second of two callers loads after the
// first has failed.
func TestNextCallerLoadsAfterFailedLoad(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := cache.NewShared[*counted](nil)
		first, second := s.Need("k"), s.Need("k")
		broken, fail := errors.New("broken"), make(chan struct{})
		var group sync.WaitGroup
		group.Go(func() {
			_, err := first.Get(t.Context(), func(context.Context) (*counted, error) {
				<-fail
				return nil, broken
			})
			if !errors.Is(err, broken) {
				t.Errorf("the first got %v", err)
			}
		})
		synctest.Wait()
		group.Go(func() {
			v, err := second.Get(t.Context(), (&loads{}).load)
			if err != nil {
				t.Errorf("the second got %v", err)
				return
			}
			v.Release()
		})
		ended, cancel := context.WithCancel(t.Context())
		group.Go(func() {
			if _, err := second.Get(ended, (&loads{}).load); !errors.Is(err, context.Canceled) {
				t.Errorf("who went away got %v", err)
			}
		})
		synctest.Wait()
		cancel()
		synctest.Wait()
		close(fail)
		group.Wait()
		first.Close()
		second.Close()
	})
}

// TestStreamThatWaitsForALoadCountsAsWaiting checks a loading stream that lacks memory which
// is held by the stream that waits for the load. If that did not count as waiting, the load
// would be retried until the budget times out.
func TestStreamThatWaitsForALoadCountsAsWaiting(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := budget.New(100)
		older, olderStream := b.Enter(t.Context(), "")
		younger, youngerStream := b.Enter(t.Context(), "")
		defer youngerStream.Release()
		held, err := b.Reserve("of the older stream", 50)
		require.NoError(t, err)
		s, started, begin := cache.NewShared[*counted](b), time.Now(), make(chan struct{})
		first, second := s.Need("k"), s.Need("k")
		var group sync.WaitGroup
		group.Go(func() {
			_, err := first.Get(younger, func(ctx context.Context) (*counted, error) {
				<-begin
				return nil, b.Await(ctx, "the value", 60)
			})
			if fault.KindOf(err) != fault.Exhausted || time.Since(started) > 0 {
				t.Errorf("the loader got %v after %s", err, time.Since(started))
			}
		})
		synctest.Wait()
		group.Go(func() {
			defer olderStream.Release()
			v, err := second.Get(older, (&loads{budget: b, size: cache.Size{Memory: 50}}).load)
			if err != nil {
				t.Errorf("who waited got %v", err)
				return
			}
			v.Release()
		})
		synctest.Wait()
		close(begin)
		group.Wait()
		first.Close()
		second.Close()
		held.Release()
		require.Zero(t, b.Used())
	})
}
