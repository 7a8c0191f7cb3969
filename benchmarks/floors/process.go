package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"syscall"
	"time"

	"github.com/penstock/penstock/benchmarks/child"
)

// ask sends a request to a process, and returns the resulting pass.
func ask(p *child.Process, r request) (pass, error) {
	var done pass
	if err := p.Send(r); err != nil {
		return done, err
	}
	if err := p.Receive(&done); err != nil {
		return done, err
	}
	if done.Error != "" {
		return done, errors.New(done.Error)
	}
	return done, nil
}

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
