package cache_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/cache"
	"github.com/penstock/penstock/internal/budget"
)

// used needs a value, uses it once, and closes the need.
func used(t *testing.T, s *cache.Shared[*counted], key string, l *loads) {
	t.Helper()
	n := s.Need(key)
	defer n.Close()
	get(t, n, l)
}

// TestKeptValuesOutliveTheLastNeed until a reservation lacks room. Then those kept first go, no
// more than must, and the budget was not pressed. Kept values count as free.
func TestKeptValuesOutliveTheLastNeed(t *testing.T) {
	t.Parallel()
	b := budget.New(100)
	s := cache.NewKeeping[*counted](b, 50)
	l := &loads{budget: b, size: cache.Size{Memory: 10}}
	for _, key := range []string{"a", "b", "c"} {
		used(t, s, key, l)
	}
	require.EqualValues(t, 30, b.Used())
	require.Zero(t, b.InUse())
	used(t, s, "a", l)
	require.Equal(t, 3, l.times)
	require.Equal(t, cache.KeptStats{Values: 3, Bytes: 30, Hits: 1, HitBytes: 10}, s.Stats())

	more, err := b.Reserve("more", 75)
	require.NoError(t, err)
	require.EqualValues(t, 95, b.Used(), "b was kept first")
	require.False(t, b.Pressed())
	more.Release()
	used(t, s, "c", l)
	used(t, s, "a", l)
	require.Equal(t, 3, l.times)

	n := s.Need("a")
	require.EqualValues(t, 10, b.InUse(), "it is needed again")
	_, err = b.Reserve("all", 100)
	require.Error(t, err)
	require.EqualValues(t, 10, b.Used(), "what is needed stays")
	n.Close()
	require.EqualValues(t, 10, s.Drop())
	require.Zero(t, b.Used())
	require.Zero(t, b.Idle())
}

// TestKeptValuesAreLimited: the one kept first goes.
func TestKeptValuesAreLimited(t *testing.T) {
	t.Parallel()
	b := budget.New(100)
	s := cache.NewKeeping[*counted](b, 50)
	l := &loads{budget: b, size: cache.Size{Memory: 20}}
	for _, key := range []string{"a", "b", "c"} {
		used(t, s, key, l)
	}
	require.EqualValues(t, 40, b.Used())
	used(t, s, "c", l)
	used(t, s, "b", l)
	require.Equal(t, 3, l.times)
}

// TestOnlyMemoryIsKept: neither values on disk, nor those of a need that keeps none, nor those that
// are not loaded.
func TestOnlyMemoryIsKept(t *testing.T) {
	t.Parallel()
	b := budget.New(100)
	s := cache.NewKeeping[*counted](b, 50)
	used(t, s, "disk", &loads{budget: b, size: cache.Size{Disk: 10}})
	s.Need("never loaded").Close()
	unkept := s.Need("unkept")
	get(t, unkept, &loads{budget: b, size: cache.Size{Memory: 10}})
	unkept.CloseUnkept()
	require.Zero(t, b.Used())
	require.Zero(t, s.Stats().Values)
	unlimited := cache.NewKeeping[*counted](nil, 50)
	used(t, unlimited, "k", &loads{size: cache.Size{Memory: 10}})
	require.Zero(t, unlimited.Stats().Values, "nothing would ever release it")
}

// TestKeptValuesUnderLoad needs, keeps and evicts values in several goroutines.
func TestKeptValuesUnderLoad(t *testing.T) {
	t.Parallel()
	b := budget.New(60)
	s := cache.NewKeeping[*counted](b, 50)
	var group sync.WaitGroup
	for id := range 4 {
		group.Go(func() {
			for i := range 300 {
				n := s.Need(string(rune('a' + (i*7+id)%5)))
				pin := n.Pin()
				v, err := n.Get(context.Background(), func(context.Context) (*counted, error) {
					held, err := b.Reserve("a value", 10)
					if err != nil {
						return nil, err
					}
					return &counted{references: 1, size: cache.Size{Memory: 10}, held: held}, nil
				})
				if err == nil {
					v.Release()
				}
				pin.Release()
				n.Close()
			}
		})
	}
	group.Wait()
	require.Equal(t, b.Used(), b.Idle())
	s.Drop()
	require.Zero(t, b.Used())
}

// closing is a value whose last Release closes the need of another one.
type closing struct {
	*counted
	close func()
}

func (c closing) Release() {
	c.counted.Release()
	if c.references == 0 && c.close != nil {
		c.close()
	}
}

// TestKeptValuesAreNotEvicted: an eviction that began while a value was idle leaves it alone if it was kept
// meanwhile, as the list of kept values and the count of idle bytes say.
func TestKeptValuesAreNotEvicted(t *testing.T) {
	t.Parallel()
	b := budget.New(100)
	s := cache.NewKeeping[closing](b, 50)
	load := func(key string, then func()) *cache.Need[closing] {
		n := s.Need(key)
		v, err := n.Get(t.Context(), func(context.Context) (closing, error) {
			held, err := b.Reserve("a value", 10)
			return closing{&counted{references: 1, size: cache.Size{Memory: 10}, held: held}, then}, err
		})
		require.NoError(t, err)
		v.Release()
		n.Pin().Release() // makes it idle
		return n
	}
	var second *cache.Need[closing]
	first := load("first", func() { second.Close() })
	second = load("second", nil)

	_, err := b.Reserve("all", 100) // evicts the first one, which has the second one kept
	require.Error(t, err)
	require.EqualValues(t, 1, s.Stats().Values)
	require.Equal(t, b.Used(), b.Idle())
	first.Close()
	s.Drop()
	require.Zero(t, b.Used())
	require.Zero(t, b.Idle())
}

// releasing is a value whose last Release calls a function before it frees the memory.
type releasing struct {
	*counted
	before func()
}

func (r releasing) Release() {
	if r.references == 1 {
		r.before()
	}
	r.counted.Release()
}

// TestStreamsWaitForKeptValues that another goroutine is about to release: they do not fail, although all
// streams wait.
func TestStreamsWaitForKeptValues(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := budget.New(100)
		s := cache.NewKeeping[releasing](b, 100)
		ctx, stream := b.Enter(t.Context(), "host")
		defer stream.Release()
		rows, err := b.Reserve("rows", 0)
		require.NoError(t, err)
		defer rows.Release()
		ended := make(chan error, 1)
		n := s.Need("key")
		v, err := n.Get(t.Context(), func(context.Context) (releasing, error) {
			held, err := b.Reserve("a value", 60)
			return releasing{&counted{references: 1, size: cache.Size{Memory: 60}, held: held}, func() {
				go func() { ended <- rows.GrowWait(ctx, 45) }()
				synctest.Wait()
			}}, err
		})
		require.NoError(t, err)
		v.Release()
		n.Close()
		require.EqualValues(t, 60, s.Drop())
		require.NoError(t, <-ended)
		require.EqualValues(t, 45, b.Used())
	})
}
