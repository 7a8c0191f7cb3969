package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"

	"github.com/penstock/penstock/benchmarks/child"
)

// The clients.
const (
	inGo     = "Go"
	inPython = "pyarrow"
	none     = "" // of ways within the server's process
)

// turns has the processes of a run.
type turns struct {
	settings

	server  *child.Process
	readers map[string]*child.Process // by client
	offer   offer
}

func (t *turns) close() error {
	var err error
	for _, p := range t.readers {
		err = errors.Join(err, p.Close())
	}
	if t.server != nil {
		err = errors.Join(err, t.server.Close())
	}
	return err
}

// measurement has all timed passes of one way, form and client.
type measurement struct {
	Way    string `json:"way"`
	Form   string `json:"form"`
	Client string `json:"client"`
	Turns  []turn `json:"turns"`
}

// turn is one timed pass.
type turn struct {
	Seconds float64 `json:"seconds"`
	Server  float64 `json:"server_cpu"` // seconds
	Client  float64 `json:"client_cpu"` // seconds
	Bytes   int64   `json:"bytes"`
	Waits   int64   `json:"waits"` // voluntary context switches of both
	Other   float64 `json:"other"` // cores that were busy with something else
}

// all takes all turns. In the first one, which is not timed, every client sums what it receives.
func (t *turns) all() ([]*measurement, error) {
	all := t.measurements()
	for round := range t.rounds + 1 {
		for _, m := range all {
			one, err := t.turn(m, round == 0)
			if err != nil {
				return nil, err
			}
			if round > 0 {
				m.Turns = append(m.Turns, one)
			}
		}
	}
	return all, nil
}

// measurements returns an empty measurement for each that is taken.
func (t *turns) measurements() (all []*measurement) {
	for _, form := range []string{plain, indexed} {
		for _, w := range ways() {
			if !strings.Contains(w.name, t.only) {
				continue
			}
			for _, c := range t.clients(w) {
				all = append(all, &measurement{Way: w.name, Form: form, Client: c})
			}
		}
	}
	return all
}

// clients returns the clients that read a way.
func (t *turns) clients(w way) []string {
	switch {
	case w.network == "":
		return []string{none}
	case w.python && t.readers[inPython] != nil:
		return []string{inGo, inPython}
	default:
		return []string{inGo}
	}
}

// turn takes one turn.
func (t *turns) turn(m *measurement, warming bool) (turn, error) {
	r := request{Way: m.Way, Address: t.offer.Addresses[m.Way], Form: m.Form, Sum: warming}
	for _, w := range ways() {
		r.Sum = r.Sum || w.name == m.Way && w.sum
	}
	if m.Client == none {
		busy := busySeconds()
		p, err := ask(t.server, r)
		if err != nil {
			return turn{}, err
		}
		busy = busySeconds() - busy
		return turn{Seconds: p.Seconds, Server: p.CPU, Bytes: p.Bytes, Waits: p.Waits, Other: (busy - p.CPU) / p.Seconds}, nil
	}
	busy := busySeconds()
	before, err := ask(t.server, request{})
	if err != nil {
		return turn{}, err
	}
	p, err := ask(t.readers[m.Client], r)
	if err != nil {
		return turn{}, err
	}
	after, err := ask(t.server, request{})
	if err != nil {
		return turn{}, err
	}
	busy = busySeconds() - busy
	if err := t.check(m, p, r.Sum); err != nil {
		return turn{}, err
	}
	one := turn{Seconds: p.Seconds, Server: after.CPU - before.CPU, Client: p.CPU, Bytes: p.Bytes, Waits: after.Waits - before.Waits + p.Waits}
	one.Other = (busy - one.Server - one.Client) / p.Seconds
	return one, nil
}

// check compares what a client received with what was sent.
func (t *turns) check(m *measurement, p pass, summed bool) error {
	expected := t.offer.Expected[m.Form]
	if p.totals != expected && (summed || p.Rows != expected.Rows) {
		return fmt.Errorf("%s, %s, %s: received %+v, but %+v were sent", m.Way, m.Form, m.Client, p.totals, expected)
	}
	return nil
}

// busySeconds returns the time that all cores have been busy (proc(5): the first line of stat, in
// hundredths, without the fields for idle time and for guests); 0 if it is not known.
func busySeconds() float64 {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0
	}
	first, _, _ := bytes.Cut(text, []byte("\n"))
	ticks := 0
	for i, field := range strings.Fields(string(first)) {
		const idle, wait, guest = 4, 5, 9
		n, err := strconv.Atoi(field)
		if err != nil || i == idle || i == wait || i >= guest {
			continue
		}
		ticks += n
	}
	return float64(ticks) / 100
}

// machine describes this machine.
func machine() string {
	name := "an unknown processor"
	if text, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(text)) {
			if key, value, _ := strings.Cut(line, ":"); strings.TrimSpace(key) == "model name" {
				name = strings.TrimSpace(value)
				break
			}
		}
	}
	kernel, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		kernel = []byte(runtime.GOOS)
	}
	return fmt.Sprintf("%s, %d cores; %s; %s", name, runtime.NumCPU(), strings.TrimSpace(string(kernel)), runtime.Version())
}
