package cache

import (
	"context"
	"fmt"

	"github.com/dgraph-io/ristretto/v2"

	"github.com/penstock/penstock/internal/release"
)

// Cache maps keys to values of one type under a bound of bytes. It is safe for
// concurrent use. Eviction never takes a value from who has it: values are
// ordinary Go values that must be immutable.
type Cache[V any] struct {
	values *ristretto.Cache[string, V]
	loads  entries[V]
}

// New makes a cache whose values may cost limit bytes together.
func New[V any](limit int64) (*Cache[V], error) {
	const bytesPerCounter = 512 // values are seldom smaller, so counters never run short
	values, err := ristretto.NewCache(&ristretto.Config[string, V]{
		NumCounters: max(1024, 10*limit/bytesPerCounter/16),
		MaxCost:     limit,
		BufferItems: 64,
	})
	if err != nil {
		return nil, fmt.Errorf("make a cache of %d bytes: %w", limit, err)
	}
	return &Cache[V]{values: values}, nil
}

// Close ends the cache's goroutines. It must not be used afterwards.
func (c *Cache[V]) Close() { c.values.Close() }

// Forget drops the value of a key, if there is one: who asks next has it loaded anew.
// Those that have it keep it.
func (c *Cache[V]) Forget(key string) { c.values.Del(key) }

// unmarked is the markWaiting of loads that the waiting stream may itself do, on
// another of its goroutines: it marks nothing.
func unmarked(context.Context) *release.Handle { return nil }

// Get returns the value of a key. If there is none it is loaded, with its cost
// in bytes, by the first who asks, with that one's ctx; those who wait for it
// get it even if the cache has no room to keep it. A caller whose ctx ends stops
// waiting. A load that fails is the loader's failure alone: the next one tries.
func (c *Cache[V]) Get(ctx context.Context, key string, load func(context.Context) (V, int64, error)) (V, error) {
	if v, ok := c.values.Get(key); ok {
		return v, nil
	}
	e := c.loads.enter(key)
	defer c.loads.leave(e)
	var got V
	err := e.get(ctx, unmarked, func(ctx context.Context) (V, error) {
		if v, ok := c.values.Get(key); ok { // loaded, and left, since it was looked for
			return v, nil
		}
		v, cost, err := load(ctx)
		if err == nil {
			c.values.Set(key, v, cost)
			c.values.Wait()
		}
		return v, err
	}, func(v V) { got = v })
	return got, err
}
