package budget

import (
	"context"
	"sync"
)

// Once pays for what several holders have in common, by a key: as long as there is
// one, and once. It is safe for concurrent use. The zero value belongs to no budget
// and is unlimited.
type Once[K comparable] struct {
	budget *Budget
	what   string

	mu   sync.Mutex
	paid map[K]*paid
}

// paid is what one key stands for.
type paid struct {
	holders int
	held    *Reservation
}

// NewOnce makes a Once of things that are called what.
func NewOnce[K comparable](b *Budget, what string) *Once[K] {
	return &Once[K]{budget: b, what: what, paid: map[K]*paid{}}
}

// Hold adds a holder of something that takes so many bytes, and waits for them as
// GrowWait does if it is the first one. The holder calls release, once.
func (o *Once[K]) Hold(ctx context.Context, key K, bytes int64) (release func(), err error) {
	if o == nil || o.budget == nil {
		return func() {}, nil
	}
	if o.join(key, nil) {
		return func() { o.leave(key) }, nil
	}
	held, err := o.budget.Reserve(o.what, 0)
	if err != nil {
		return nil, err
	}
	if err := held.GrowWait(ctx, bytes); err != nil {
		return nil, err
	}
	o.join(key, held)
	return func() { o.leave(key) }, nil
}

// join adds a holder, if there is one already or held pays for it, and says
// whether it did. Where another has paid meanwhile, held is given back.
func (o *Once[K]) join(key K, held *Reservation) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	p := o.paid[key]
	switch {
	case p != nil && held != nil:
		held.Release()
	case p == nil && held == nil:
		return false
	case p == nil:
		p = &paid{held: held}
		o.paid[key] = p
	}
	p.holders++
	return true
}

func (o *Once[K]) leave(key K) {
	o.mu.Lock()
	defer o.mu.Unlock()
	p := o.paid[key]
	if p.holders--; p.holders == 0 {
		delete(o.paid, key)
		p.held.Release()
	}
}
