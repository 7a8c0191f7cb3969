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
	"syscall"
	"time"
)

// process is a process that answers requests, one JSON object per line.
type process struct {
	command *exec.Cmd
	in      io.WriteCloser
	out     *json.Decoder
}

// start starts a program, which ends when its input ends.
func start(ctx context.Context, program string, arguments ...string) (*process, error) {
	p := &process{command: exec.CommandContext(ctx, program, arguments...)} //nolint:gosec // this program, or Python
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

// receive decodes the next answer.
func (p *process) receive(to any) error {
	if err := p.out.Decode(to); err != nil {
		return fmt.Errorf("%s: %w", p.command.Args[0], err)
	}
	return nil
}

// ask sends a request, and returns the pass that it caused.
func (p *process) ask(r request) (pass, error) {
	var done pass
	if err := json.NewEncoder(p.in).Encode(r); err != nil {
		return done, err
	}
	if err := p.receive(&done); err != nil {
		return done, err
	}
	if done.Error != "" {
		return done, errors.New(done.Error)
	}
	return done, nil
}

// close ends the process.
func (p *process) close() error { return errors.Join(p.in.Close(), p.command.Wait()) }

// answer answers requests until the input ends.
func answer(from io.Reader, to io.Writer, do func(request) (pass, error)) error {
	lines := json.NewDecoder(bufio.NewReader(from))
	for {
		var r request
		if err := lines.Decode(&r); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		done, err := do(r)
		if err != nil {
			done.Error = fmt.Sprintf("%s, %s: %v", r.Way, r.Form, err)
		}
		if err := json.NewEncoder(to).Encode(done); err != nil {
			return err
		}
	}
}

// measured returns a pass with the time and the CPU time of this process during do.
func measured(do func(*pass) error) (p pass, err error) {
	begun, before := time.Now(), soFar()
	err = do(&p)
	after := soFar()
	p.Seconds, p.CPU, p.Waits = time.Since(begun).Seconds(), after.CPU-before.CPU, after.Waits-before.Waits
	return p, err
}

// soFar returns the CPU time and the context switches of this process since its start.
func soFar() pass {
	var usage syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &usage) // fails for other arguments only
	return pass{CPU: time.Duration(usage.Utime.Nano() + usage.Stime.Nano()).Seconds(), Waits: usage.Nvcsw}
}
