package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/penstock/penstock/benchmarks/child"
	"github.com/penstock/penstock/benchmarks/passes"
)

// echo is the server of benchmarks/floors, as a process of its own.
type echo struct {
	*passes.Client

	process *child.Process
	folder  string
}

// startEcho builds and starts it.
func startEcho(ctx context.Context) (e *echo, err error) {
	e = &echo{}
	if e.folder, err = os.MkdirTemp("", "sweep"); err != nil {
		return nil, err
	}
	program := filepath.Join(e.folder, "floors")
	build := exec.CommandContext(ctx, "go", "build", "-o", program, "./benchmarks/floors") //nolint:gosec // its own folder
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		return nil, errors.Join(err, os.RemoveAll(e.folder))
	}
	if e.process, err = child.Start(ctx, program, "-role", "server", "-folder", e.folder); err != nil {
		return nil, err
	}
	var offer struct {
		Addresses map[string]string `json:"addresses"`
	}
	if err := e.process.Receive(&offer); err != nil {
		return nil, err
	}
	e.Client, err = passes.Connect(offer.Addresses["gRPC, TCP"])
	return e, err
}

// Close stops the server.
func (e *echo) Close() error {
	return errors.Join(e.Client.Close(), e.process.Close(), os.RemoveAll(e.folder))
}

// cpu returns the CPU time of the server so far, in seconds.
func (e *echo) cpu() (float64, error) {
	if err := e.process.Send(struct{}{}); err != nil {
		return 0, err
	}
	var answer struct {
		CPU float64 `json:"cpu"`
	}
	err := e.process.Receive(&answer)
	return answer.CPU, err
}

// pass has as many clients as there are jobs receive ready batches at once. It returns the cost of
// one.
func (e *echo) pass(ctx context.Context, form string, clients int) (c cost, err error) {
	before, err := e.cpu()
	if err != nil {
		return c, err
	}
	begun := time.Now()
	if _, err := atOnce(ctx, e.Address, repeated(echoed(form), clients), false); err != nil {
		return c, err
	}
	c.took = time.Since(begun)
	after, err := e.cpu()
	c.cpu = (after - before) / float64(clients)
	return c, err
}

// echoed returns the query of ready batches.
func echoed(form string) string { return fmt.Sprintf(`{"dataset": %q}`, form) }
