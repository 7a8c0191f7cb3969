// Package passes times complete reads of a server's datasets over Flight. Its client receives
// messages but does not decode them.
package passes

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/apache/arrow-go/v18/arrow/flight"
)

// Pass is one complete read.
type Pass struct {
	Rows  int64         // from the reports
	Bytes int64         // of message headers and bodies
	Took  time.Duration // from the request for endpoints to the last message
	CPU   float64       // seconds, of the server
	Peak  int64         // maximum resident memory of the server so far, in bytes
}

// Middle returns the pass with the median time.
func Middle(all []Pass) Pass {
	slices.SortFunc(all, func(a, b Pass) int { return int(a.Took - b.Took) })
	return all[len(all)/2]
}

// Server is a server process for passes.
type Server struct {
	*Client

	process *exec.Cmd
}

// Start starts a program's server with a configuration, and settings as more arguments. If logs is
// set, its log goes to standard error.
func Start(ctx context.Context, program, config string, logs bool, settings ...string) (*Server, error) {
	address, err := Free(ctx)
	if err != nil {
		return nil, err
	}
	arguments := append([]string{"serve", "--config", config, "--listen", address}, settings...)
	s := &Server{process: exec.CommandContext(ctx, program, arguments...)} //nolint:gosec // the program under test
	if logs {
		s.process.Stderr = os.Stderr
	}
	if err := s.process.Start(); err != nil {
		return nil, err
	}
	if s.Client, err = Connect(address); err != nil {
		return nil, errors.Join(err, s.stop())
	}
	return s, nil
}

// Metric returns a metric without labels of a server that was started with the address of its metrics.
func Metric(ctx context.Context, address, name string) (float64, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/metrics", http.NoBody)
	if err != nil {
		return 0, err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, err
	}
	defer answer.Body.Close() //nolint:errcheck // it was read
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if value, found := strings.CutPrefix(line, name+" "); found {
			return strconv.ParseFloat(strings.TrimSpace(value), 64)
		}
	}
	return 0, fmt.Errorf("the server has no metric %s", name)
}

// Close stops the server.
func (s *Server) Close() error { return errors.Join(s.Client.Close(), s.stop()) }

func (s *Server) stop() error {
	err := s.process.Process.Signal(os.Interrupt)
	_ = s.process.Wait() // it got SIGTERM
	return err
}

// Read reads all endpoints of a query, one after the other.
func (s *Server) Read(ctx context.Context, query string) (Pass, error) {
	before, err := s.CPU()
	if err != nil {
		return Pass{}, err
	}
	begun := time.Now()
	var p Pass
	report, err := s.Receive(ctx, query, func(message *flight.FlightData) error {
		p.Bytes += int64(len(message.GetDataHeader()) + len(message.GetDataBody()))
		return nil
	})
	if err != nil {
		return Pass{}, err
	}
	p.Took, p.Rows = time.Since(begun), report.Rows
	after, err := s.CPU()
	if err != nil {
		return Pass{}, err
	}
	p.CPU = after - before
	p.Peak, err = s.peak()
	return p, err
}

// CPU returns the CPU time of the server so far in seconds (proc(5): fields 14 and 15 of stat, in
// hundredths).
func (s *Server) CPU() (float64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", s.process.Process.Pid))
	if err != nil {
		return 0, err
	}
	const user, system = 11, 12 // after the name
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	ticks := 0
	for _, at := range []int{user, system} {
		n, err := strconv.Atoi(fields[at])
		if err != nil {
			return 0, err
		}
		ticks += n
	}
	return float64(ticks) / 100, nil
}

// BytesRead returns the bytes that the server's calls of read(2) and pread(2) have returned so far (proc(5): rchar of io): of files,
// and of what clients sent.
func (s *Server) BytesRead() (int64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/io", s.process.Process.Pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "rchar:"); ok {
			return strconv.ParseInt(strings.TrimSpace(rest), 10, 64)
		}
	}
	return 0, errors.New("the server's io has no rchar")
}

// peak returns the maximum resident memory (proc(5): VmHWM of status, in KiB).
func (s *Server) peak() (int64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.process.Process.Pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			n, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
			return n << 10, err
		}
	}
	return 0, errors.New("the server's status has no VmHWM")
}

// Free returns an unused address.
func Free(ctx context.Context) (string, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}
