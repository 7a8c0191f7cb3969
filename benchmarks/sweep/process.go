package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/apache/arrow-go/v18/arrow/flight"

	"github.com/penstock/penstock/benchmarks/child"
)

// atOnce has jobs read a query each at once, each in a process of its own, and returns the times to their
// first batches. With first, they stop there.
func atOnce(ctx context.Context, address string, asked []string, first bool) (firsts []time.Duration, err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	var processes []*child.Process
	defer func() {
		for _, p := range processes {
			err = errors.Join(err, p.Close())
		}
	}()
	for _, one := range asked {
		p, err := startJob(ctx, self, address, one, first)
		if err != nil {
			return nil, err
		}
		processes = append(processes, p)
	}
	for _, p := range processes { // all have connected
		if err := p.Send(struct{}{}); err != nil {
			return nil, err
		}
	}
	for _, p := range processes {
		var got struct{ First time.Duration }
		if err := p.Receive(&got); err != nil {
			return nil, err
		}
		firsts = append(firsts, got.First)
	}
	return firsts, nil
}

// startJob starts a process, and returns when it is connected. It reads when it receives an object.
func startJob(ctx context.Context, self, address, asked string, first bool) (*child.Process, error) {
	p, err := child.Start(ctx, self, "-role", "job", "-address", address, "-query", asked, fmt.Sprintf("-first=%t", first))
	if err != nil {
		return nil, err
	}
	if err := p.Receive(&struct{}{}); err != nil {
		return nil, errors.Join(err, p.Close())
	}
	return p, nil
}

// one is the main function of such a process.
func one(ctx context.Context, address, asked string, first bool) error {
	j, err := newJob(address, false)
	if err != nil {
		return err
	}
	if _, err := j.client.Plan(ctx, asked); err != nil { // connects
		return err
	}
	out := json.NewEncoder(os.Stdout)
	if err := out.Encode(struct{}{}); err != nil {
		return err
	}
	if err := json.NewDecoder(os.Stdin).Decode(&struct{}{}); err != nil {
		return err
	}
	got, err := j.read(ctx, asked, func(_ int, m *flight.FlightData) error {
		if first && len(m.GetAppMetadata()) > 0 {
			return errEnough
		}
		return nil
	})
	if err != nil {
		return err
	}
	return out.Encode(struct{ First time.Duration }{got.first})
}
