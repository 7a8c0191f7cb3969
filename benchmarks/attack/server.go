package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	mebi = int64(1) << 20
	gibi = int64(1) << 30

	// started limits the time until a server prints its address.
	started = 2 * time.Minute
	// drainTime is the time for which servers wait for running streams.
	drainTime = 2 * time.Second
	// endTime is the time within which a server must exit after the drain time.
	endTime = 5 * time.Second
	// watched is the interval of checks of a server's memory.
	watched = 10 * time.Millisecond
	// overshoot is the memory above its bound at which a server is killed: enough to show by how
	// much it fails, too little to harm the machine.
	overshoot = 768 * mebi
	// spoolLimit is the local disk that a server may use. The default depends on how much of the
	// disk others use, on which the result of an attack must not depend.
	spoolLimit = 6 * gibi
)

// bound returns the largest resident memory allowed for a server with a budget.
func bound(budget int64) int64 { return budget + budget/4 + 256*mebi }

// launch are the settings of a server.
type launch struct {
	home   string   // folder of penstock.yaml
	budget int64    // bytes
	env    []string // settings as NAME=VALUE, which older servers do not look at
	as     access   // of the clients that may read
}

// server is a running penstock. A watchdog kills it if its memory exceeds its bound plus the
// overshoot.
type server struct {
	command *exec.Cmd
	address string
	profile string // http address of the profiles
	log     string // path of its log
	budget  int64
	as      access // of the clients that may read

	peak   atomic.Int64 // bytes, the most ever seen
	killed atomic.Bool  // by the watchdog
	gone   chan struct{}
	result error // of its end; after gone
}

// start starts a server of this run's program.
func (r *run) start(ctx context.Context, l launch) (*server, error) {
	r.servers++
	s := &server{
		budget: l.budget, as: l.as, gone: make(chan struct{}),
		log: filepath.Join(r.scratch, fmt.Sprintf("server-%d.log", r.servers)),
	}
	spool := filepath.Join(r.scratch, "spool")
	if err := os.MkdirAll(spool, 0o700); err != nil {
		return nil, err
	}
	log, err := os.Create(s.log)
	if err != nil {
		return nil, err
	}
	defer log.Close()                                                                                                                   //nolint:errcheck // the server has its own handle
	s.command = exec.CommandContext(context.WithoutCancel(ctx), r.program, "serve", "--config", filepath.Join(l.home, "penstock.yaml"), //nolint:gosec // the program under attack
		"--listen", "127.0.0.1:0", "--metrics", "127.0.0.1:0", "--pprof", "--memory", strconv.FormatInt(l.budget, 10),
		"--spool", spool, "--spool-limit", strconv.FormatInt(spoolLimit, 10), "--drain", drainTime.String())
	s.command.Env = append(os.Environ(), l.env...)
	s.command.Stderr = log
	out, err := s.command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := s.command.Start(); err != nil {
		return nil, err
	}
	// If memory runs out despite the watchdog, the kernel kills this server first.
	_ = os.WriteFile(fmt.Sprintf("/proc/%d/oom_score_adj", s.pid()), []byte("1000"), 0o600)
	go s.watch(min(bound(l.budget)+overshoot, r.ceiling))
	go s.wait(out)
	if err := s.ready(ctx); err != nil {
		s.kill()
		return nil, fmt.Errorf("start %s: %w; its log is %s", r.program, err, s.log)
	}
	return s, nil
}

func (s *server) pid() int { return s.command.Process.Pid }

// wait reads the server's output until the server exits.
func (s *server) wait(out io.Reader) {
	_, _ = io.Copy(io.Discard, out)
	s.result = s.command.Wait()
	close(s.gone)
}

// ready waits until the log contains the addresses.
func (s *server) ready(ctx context.Context) error {
	limit, cancel := context.WithTimeout(ctx, started)
	defer cancel()
	serves, metrics := regexp.MustCompile(`msg="penstock serves".* listen=(\S+)`), regexp.MustCompile(`msg=metrics listen=(\S+)`)
	for s.address == "" || s.profile == "" {
		select {
		case <-limit.Done():
			return errors.New("it did not say its address")
		case <-s.gone:
			return fmt.Errorf("it ended: %w", s.result)
		case <-time.After(watched):
		}
		text, err := os.ReadFile(s.log)
		if err != nil {
			return err
		}
		if m := serves.FindSubmatch(text); m != nil {
			s.address = string(m[1])
		}
		if m := metrics.FindSubmatch(text); m != nil {
			s.profile = "http://" + string(m[1])
		}
	}
	return nil
}

// watch records the server's peak memory, and kills the server above most.
func (s *server) watch(most int64) {
	for {
		m, err := memoryOf(s.pid())
		if err == nil {
			s.peak.Store(max(s.peak.Load(), m.peak))
			if m.now > most {
				s.killed.Store(true)
				_ = s.command.Process.Kill()
			}
		}
		select {
		case <-s.gone:
			return
		case <-time.After(watched):
		}
	}
}

// dead reports whether the server has exited.
func (s *server) dead() bool {
	select {
	case <-s.gone:
		return true
	default:
		return false
	}
}

// end makes the server exit, and returns the time that this took. A server that has not exited
// well after its drain time is killed, which is an error.
func (s *server) end() (time.Duration, error) {
	if s.dead() {
		return 0, nil
	}
	begun := time.Now()
	if err := s.command.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return 0, err
	}
	select {
	case <-s.gone:
		return time.Since(begun), nil
	case <-time.After(drainTime + 3*endTime):
		s.kill()
		return time.Since(begun), fmt.Errorf("it had not ended %s after SIGTERM", drainTime+3*endTime)
	}
}

// kill kills the server, and waits until it has exited.
func (s *server) kill() {
	_ = s.command.Process.Kill()
	<-s.gone
}

// resident returns the server's resident memory, in bytes.
func (s *server) resident() int64 {
	m, err := memoryOf(s.pid())
	if err != nil {
		return 0
	}
	return m.now
}

// goroutines returns the number of the server's goroutines.
func (s *server) goroutines(ctx context.Context) (int, error) {
	text, err := s.get(ctx, "/debug/pprof/goroutine?debug=1")
	if err != nil {
		return 0, err
	}
	first, _, _ := strings.Cut(text, "\n")
	return parseGoroutines(first)
}

// idle returns the bytes that the server keeps for later streams, from its metrics.
func (s *server) idle(ctx context.Context) (int64, error) {
	text, err := s.get(ctx, "/metrics")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(text) {
		if value, found := strings.CutPrefix(strings.TrimSpace(line), "penstock_memory_idle_bytes "); found {
			bytes, err := strconv.ParseFloat(value, 64)
			return int64(bytes), err
		}
	}
	return 0, errors.New("the metrics lack penstock_memory_idle_bytes")
}

// get returns a page of the server's metrics and profiles.
func (s *server) get(ctx context.Context, path string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.profile+path, nil)
	if err != nil {
		return "", err
	}
	request.Close = true // a kept connection has goroutines of its own
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close() //nolint:errcheck // it was read alone
	text, err := io.ReadAll(answer.Body)
	return string(text), err
}

// parseGoroutines reads the first line of a goroutine profile.
func parseGoroutines(line string) (int, error) {
	digits, ok := strings.CutPrefix(strings.TrimSpace(line), "goroutine profile: total ")
	if !ok {
		return 0, fmt.Errorf("%q is no goroutine profile", line)
	}
	return strconv.Atoi(digits)
}
