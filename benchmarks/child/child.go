// Package child runs processes that exchange JSON objects with their parent, one per line, over their
// standard input and output.
package child

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
)

// Process is a running child. It is not safe for concurrent use.
type Process struct {
	command *exec.Cmd
	in      io.WriteCloser
	out     *json.Decoder
}

// Start starts a program, which ends when its input ends, or with ctx. The caller closes it.
func Start(ctx context.Context, program string, arguments ...string) (*Process, error) {
	p := &Process{command: exec.CommandContext(ctx, program, arguments...)} //nolint:gosec // of a benchmark
	p.command.Stderr = os.Stderr
	var err error
	if p.in, err = p.command.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := p.command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.out = json.NewDecoder(out)
	return p, p.command.Start()
}

// Send encodes an object for the child.
func (p *Process) Send(object any) error {
	if err := json.NewEncoder(p.in).Encode(object); err != nil {
		return fmt.Errorf("%s: %w", p.command.Args[0], err)
	}
	return nil
}

// Receive decodes the child's next object.
func (p *Process) Receive(to any) error {
	if err := p.out.Decode(to); err != nil {
		return fmt.Errorf("%s: %w", p.command.Args[0], err)
	}
	return nil
}

// Close ends the child's input, and waits until the child has ended.
func (p *Process) Close() error { return errors.Join(p.in.Close(), p.command.Wait()) }
