package ui

import (
	"context"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/penstock/penstock/flight"
	"github.com/penstock/penstock/internal/fault"
)

// replica is the status of a replica, or why it is not known.
type replica struct {
	Name    string
	Failure string
	flight.ServerStatus

	watched Watched
}

// replicaTime bounds the calls to one replica, so that one that hangs does not delay the pages of the others for long.
const replicaTime = 3 * time.Second

// maxCalls is the maximum number of replicas that are called at the same time.
const maxCalls = 16

// replicas returns all replicas, with those that their names stand for now.
func (p *pages) replicas(ctx context.Context) []Replica {
	out := slices.Clone(p.Replicas)
	for _, one := range p.Resolved {
		out = append(out, one.Replicas(ctx)...)
	}
	return out
}

// statuses returns the statuses of all replicas, in their order. If all calls fail for the same kind of reason, it returns the error of the
// first: a viewer who may not call one replica may call none.
func (p *pages) statuses(ctx context.Context) ([]replica, error) {
	replicas := p.replicas(ctx)
	out, failures := make([]replica, len(replicas)), make([]error, len(replicas))
	var group errgroup.Group
	group.SetLimit(maxCalls)
	for i, one := range replicas {
		group.Go(func() error {
			ctx, cancel := context.WithTimeout(ctx, replicaTime)
			defer cancel()
			status, _, err := one.Watched.Status(ctx)
			out[i] = replica{Name: one.Name, ServerStatus: status, watched: one.Watched}
			if failures[i] = err; err != nil {
				out[i].Failure = failureOf(err).Message
			}
			return nil
		})
	}
	_ = group.Wait() // the errors are in failures
	for _, err := range failures {
		if err == nil {
			return out, nil
		}
	}
	for _, err := range failures {
		switch fault.KindOf(err) { //nolint:exhaustive // other failures are those of replicas, which the page lists
		case fault.Unauthenticated, fault.Forbidden:
			return nil, err
		}
	}
	return out, nil
}
