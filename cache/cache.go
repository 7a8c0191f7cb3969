// Package cache remembers values by key under a bound of bytes, in memory.
//
// It is a leaf and knows nothing of tables. A value is loaded once however
// many ask for it at the same moment; a load that fails is nobody's value,
// and one that fails because its caller went away is tried again by the next.
// Eviction never takes a value from who has it: values are ordinary Go
// pointers that must be immutable.
package cache

import (
	"context"
	"errors"
	"fmt"

	"github.com/dgraph-io/ristretto/v2"
	"golang.org/x/sync/singleflight"
)

// Cache maps keys to values of one type. It is safe for concurrent use.
type Cache[V any] struct {
	values *ristretto.Cache[string, V]
	loads  singleflight.Group
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

// Get returns the value of a key, loading it and its cost in bytes if need
// be. A caller whose ctx ends stops waiting. A load that was cancelled with
// its first caller is started again for the others.
func (c *Cache[V]) Get(ctx context.Context, key string, load func(context.Context) (V, int64, error)) (V, error) {
	var none V
	for {
		if v, ok := c.values.Get(key); ok {
			return v, nil
		}
		result := c.loads.DoChan(key, func() (any, error) {
			v, cost, err := load(ctx)
			if err != nil {
				return nil, err
			}
			c.values.Set(key, v, cost)
			c.values.Wait()
			return v, nil
		})
		select {
		case <-ctx.Done():
			return none, ctx.Err()
		case r := <-result:
			if r.Err == nil {
				return r.Val.(V), nil
			}
			if cancelled(r.Err) && ctx.Err() == nil {
				continue
			}
			return none, r.Err
		}
	}
}

func cancelled(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}
