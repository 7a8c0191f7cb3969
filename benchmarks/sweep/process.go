package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"

	"github.com/apache/arrow-go/v18/arrow/flight"
)

// atOnce has jobs read a query at once, each in a process of its own, and returns the times to their first
// batches. With first, they stop there.
func atOnce(ctx context.Context, address, asked string, jobs int, first bool) (firsts []time.Duration, err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	processes := make([]jobProcess, jobs)
	defer func() {
		for _, p := range processes {
			err = errors.Join(err, p.close())
		}
	}()
	for i := range processes {
		if processes[i], err = startJob(ctx, self, address, asked, first); err != nil {
			return nil, err
		}
	}
	for _, p := range processes { // all have connected
		if _, err := fmt.Fprintln(p.in); err != nil {
			return nil, err
		}
	}
	for _, p := range processes {
		var got struct{ First time.Duration }
		if err := p.out.Decode(&got); err != nil {
			return nil, err
		}
		firsts = append(firsts, got.First)
	}
	return firsts, nil
}

// jobProcess is a process with one job.
type jobProcess struct {
	command *exec.Cmd
	in      io.WriteCloser
	out     *json.Decoder
}

// startJob starts a process, and returns when it is connected. It reads when it receives a line.
func startJob(ctx context.Context, self, address, asked string, first bool) (p jobProcess, err error) {
	p.command = exec.CommandContext(ctx, self, "-role", "job", "-address", address, "-query", asked, fmt.Sprintf("-first=%t", first)) //nolint:gosec // this program
	p.command.Stderr = os.Stderr
	if p.in, err = p.command.StdinPipe(); err != nil {
		return p, err
	}
	out, err := p.command.StdoutPipe()
	if err != nil {
		return p, err
	}
	p.out = json.NewDecoder(out)
	if err := p.command.Start(); err != nil {
		return p, err
	}
	var connected struct{}
	return p, p.out.Decode(&connected)
}

// close ends the process.
func (p jobProcess) close() error {
	if p.command == nil || p.command.Process == nil {
		return nil
	}
	return errors.Join(p.in.Close(), p.command.Wait())
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
	if _, err := bufio.NewReader(os.Stdin).ReadString('\n'); err != nil {
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
