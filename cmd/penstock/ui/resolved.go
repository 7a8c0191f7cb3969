package ui

import (
	"cmp"
	"context"
	"io"
	"slices"
	"sync"
	"time"
)

const (
	// resolveEvery is after how long the addresses of a name are looked up again.
	resolveEvery = 30 * time.Second
	// resolveTime bounds a lookup.
	resolveTime = 2 * time.Second
)

// Dialed is a client of one address of a name.
type Dialed interface {
	Watched
	io.Closer
}

// Resolved are the replicas behind a name with several addresses, such as that of a headless service of Kubernetes. It is safe for concurrent use.
type Resolved struct {
	Name string
	// Lookup returns the addresses of the name.
	Lookup func(ctx context.Context) ([]string, error)
	// Dial returns a client of an address, which connects with its first call.
	Dial func(address string) (Dialed, error)

	mu    sync.Mutex
	until time.Time // the next lookup
	found []Replica
	open  map[string]Dialed // by address
}

// Replicas returns a replica for each address. If the lookup fails, these are the addresses of before, or else one replica whose calls fail
// with the reason.
func (r *Resolved) Replicas(ctx context.Context) []Replica {
	r.mu.Lock()
	defer r.mu.Unlock()
	if time.Now().Before(r.until) {
		return r.found
	}
	ctx, cancel := context.WithTimeout(ctx, resolveTime)
	defer cancel()
	addresses, err := r.Lookup(ctx)
	if err == nil {
		slices.Sort(addresses)
		err = r.dial(addresses)
	}
	if err != nil && len(r.open) == 0 {
		return []Replica{{Name: r.Name, Watched: unresolved{err: err}}}
	}
	r.until = time.Now().Add(resolveEvery)
	return r.found
}

// dial makes the clients of new addresses, and closes those of addresses that are gone: their servers have ended, or no longer accept calls.
func (r *Resolved) dial(addresses []string) (err error) {
	open := map[string]Dialed{}
	var found []Replica
	for _, address := range addresses {
		one := r.open[address]
		if one == nil {
			made, failed := r.Dial(address)
			if failed != nil {
				err = cmp.Or(err, failed)
				continue
			}
			one = made
		}
		open[address] = one
		found = append(found, Replica{Name: r.Name + " at " + address, Watched: one})
	}
	for address, one := range r.open {
		if open[address] == nil {
			_ = one.Close() // no call needs its answer
		}
	}
	r.open, r.found = open, found
	return err
}

// Close closes all clients.
func (r *Resolved) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.dial(nil)
}
