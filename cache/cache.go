package cache

import (
	"context"
	"fmt"

	"github.com/dgraph-io/ristretto/v2"

	"github.com/penstock/penstock/internal/release"
)

// Cache maps keys to values of one type, up to a limit in bytes. It is safe for concurrent use.
// Values must be immutable, because callers may use them after their eviction.
type Cache[V any] struct {
	values *ristretto.Cache[string, V]
	loads  entries[V]
}

// New makes a cache whose values have a total cost of at most limit bytes.
func New[V any](limit int64) (*Cache[V], error) {
	const bytesPerCounter = 512 // only few values are smaller, so there are enough counters
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

// Close ends the cache's goroutines. The cache must not be used afterward.
func (c *Cache[V]) Close() { c.values.Close() }

// Forget drops the value of a key, if there is one. The next Get loads it again.
func (c *Cache[V]) Forget(key string) { c.values.Del(key) }

// unmarked is a markWaiting that marks nothing. It is used where another goroutine of the waiting
// stream may be loading the value.
func unmarked(context.Context) *release.Handle { return nil }

// Get returns the value of a key. If there is none, the first caller calls load with its ctx; load
// returns the value and its cost in bytes. Callers that wait for the load get its value even if the
// cache has no room for it. A caller whose ctx ends stops waiting. If the load fails, only the
// caller that ran it gets the error, and the next caller tries.
func (c *Cache[V]) Get(ctx context.Context, key string, load func(context.Context) (V, int64, error)) (V, error) {
	if v, ok := c.values.Get(key); ok {
		return v, nil
	}
	e := c.loads.acquire(key)
	defer c.loads.release(e)
	var got V
	err := e.get(ctx, unmarked, func(ctx context.Context) (V, error) {
		if v, ok := c.values.Get(key); ok { // loaded since the first look
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
