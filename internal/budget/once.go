package budget

import (
	"context"
	"sync"

	"github.com/penstock/penstock/internal/release"
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
	ready   chan struct{} // closed when held is there, or nobody could pay
	held    *Reservation
}

// NewOnce makes a Once of things that are called what.
func NewOnce[K comparable](b *Budget, what string) *Once[K] {
	return &Once[K]{budget: b, what: what, paid: map[K]*paid{}}
}

// Hold adds a holder of something that takes so many bytes. The first one pays, and
// waits for the bytes as GrowWait does; others wait for the first, and where it
// fails, another pays.
func (o *Once[K]) Hold(ctx context.Context, key K, bytes int64) (*release.Handle, error) {
	if o == nil || o.budget == nil {
		return nil, nil //nolint:nilnil // a nil Handle holds nothing
	}
	for {
		p, first := o.join(key)
		var err error
		if first {
			err = o.pay(ctx, key, p, bytes)
		} else {
			err = p.wait(ctx)
		}
		if err != nil {
			o.leave(key, p)
			return nil, err
		}
		if p.held != nil {
			return release.New(func() { o.leave(key, p) }), nil
		}
		o.leave(key, p) // the first could not
	}
}

// pay pays for a key.
func (o *Once[K]) pay(ctx context.Context, key K, p *paid, bytes int64) error {
	held, err := o.budget.Reserve(o.what, 0)
	if err == nil {
		err = held.GrowWait(ctx, bytes)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if err != nil {
		delete(o.paid, key) // whoever comes next tries anew
	} else {
		p.held = held
	}
	close(p.ready)
	return err
}

// wait waits until somebody has paid, or could not.
func (p *paid) wait(ctx context.Context) error {
	select {
	case <-p.ready:
		return nil
	default:
	}
	defer MarkBlocked(ctx).Release()
	select {
	case <-p.ready:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// join adds a holder, and says whether it is the one that pays.
func (o *Once[K]) join(key K) (p *paid, first bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	p = o.paid[key]
	if p == nil {
		p, first = &paid{ready: make(chan struct{})}, true
		o.paid[key] = p
	}
	p.holders++
	return p, first
}

func (o *Once[K]) leave(key K, p *paid) {
	o.mu.Lock()
	defer o.mu.Unlock()
	p.holders--
	if p.holders > 0 || p.held == nil {
		return
	}
	delete(o.paid, key)
	p.held.Release()
}
