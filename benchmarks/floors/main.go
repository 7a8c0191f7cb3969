// Command floors measures what it costs to deliver batches that are ready: no table is read, nothing
// is joined. What a server of batches costs beyond these figures is its own; what it costs at least is
// here. The batches have T's shape (benchmarks/README.md), 2.2 GB as plain ones, and are delivered
//
//   - by the product's Flight server, over TCP on the loopback interface and over a Unix socket, with
//     the product's buffers and with larger ones;
//   - as an Arrow IPC stream on the same sockets, without gRPC;
//   - by mapped memory: a sealed memfd is passed over a Unix socket, and the client maps it;
//   - within one process: copied once, and summed.
//
// Server and client are processes of their own, so that the system counts their CPU seconds apart. The
// client is written in Go and reuses the memory of its messages: it is the cheapest one. pyarrow's
// Flight client, which trainers use, reads the Flight streams too.
//
//	go run ./benchmarks/floors [-python .venv/bench/bin/python] [-rounds 5] [-quick] [-results benchmarks/results]
//
// The server role also delivers batches of files: benchmarks/costs.py has it deliver those that a
// server sent, to compare that server with one whose batches are ready.
//
// All ways take turns. The command prints medians, and with -results writes them with all passes to
// DATE-floors.md and .json. Every client sums all columns in its first pass, and counts rows in every
// other one; the exit code is 1 if a sum or a count is wrong.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/penstock/penstock/benchmarks/child"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "floors:", err)
		os.Exit(1)
	}
}

// settings are the flags.
type settings struct {
	sizes

	role    string // of a child process: server or client
	folder  string // of the server's sockets
	python  string // "": pyarrow does not read
	script  string
	rounds  int
	quick   bool
	only    string            // part of the names of the ways that take turns
	results string            // a folder; "": nothing is written
	forms   map[string]string // files with the batches of the forms that a server delivers; none: it draws them
}

func run(ctx context.Context, arguments []string) error {
	var s settings
	flags := flag.NewFlagSet("floors", flag.ContinueOnError)
	rows := flags.Int("rows", 4_000_000, "rows of a stream")
	flags.IntVar(&s.rows, "batch-rows", 8192, "rows of a batch")
	flags.IntVar(&s.distinct, "distinct", 32, "batches in memory, which a stream repeats")
	flags.StringVar(&s.python, "python", ".venv/bench/bin/python", "a Python with pyarrow; empty: pyarrow does not read")
	flags.StringVar(&s.script, "script", "benchmarks/floors/client.py", "the pyarrow client")
	flags.IntVar(&s.rounds, "rounds", 5, "turns of each")
	flags.BoolVar(&s.quick, "quick", false, "a twentieth of the rows, in one turn")
	flags.StringVar(&s.only, "only", "", "measure only ways with this text in their names")
	flags.StringVar(&s.results, "results", "", "a folder for the results")
	flags.StringVar(&s.role, "role", "", "of a child process")
	flags.StringVar(&s.folder, "folder", "", "of a child process")
	s.forms = map[string]string{}
	flags.Func("form", "of a server: NAME=FILE, an Arrow IPC stream of batches that it delivers under this name", func(text string) error {
		name, file, found := strings.Cut(text, "=")
		if !found {
			return errors.New("it is not NAME=FILE")
		}
		s.forms[name] = file
		return nil
	})
	if err := flags.Parse(arguments); err != nil {
		return err
	}
	if s.rows < 1 || s.distinct < 1 || s.rounds < 1 {
		return errors.New("-batch-rows, -distinct and -rounds must be at least 1")
	}
	if s.quick {
		*rows, s.distinct, s.rounds = *rows/20, min(s.distinct, 4), 1
	}
	s.batches = max(1, *rows/s.rows)
	switch s.role {
	case "server":
		one, err := s.server()
		if err != nil {
			return err
		}
		return one.serve(ctx, s.folder, os.Stdin, os.Stdout)
	case "client":
		return answer(os.Stdin, os.Stdout, newClient().pass)
	case "":
		return s.measure(ctx)
	default:
		return fmt.Errorf("no role %q", s.role)
	}
}

// server returns the server of a child process.
func (s settings) server() (*server, error) {
	if len(s.forms) == 0 {
		return drawnServer(s.sizes)
	}
	forms := map[string]ready{}
	for name, file := range s.forms {
		form, err := load(file)
		if err != nil {
			return nil, fmt.Errorf("load %s: %w", file, err)
		}
		forms[name] = form
	}
	return newServer(s.sizes, forms)
}

// measure starts all processes, and reports the passes of all turns.
func (s settings) measure(ctx context.Context) (err error) {
	folder, err := os.MkdirTemp("", "floors")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	self, err := os.Executable()
	if err != nil {
		return err
	}
	t := turns{settings: s, readers: map[string]*child.Process{}}
	defer func() { err = errors.Join(err, t.close()) }()
	t.server, err = child.Start(ctx, self, "-role", "server", "-folder", folder, "-rows", strconv.Itoa(s.batches*s.rows),
		"-batch-rows", strconv.Itoa(s.rows), "-distinct", strconv.Itoa(s.distinct))
	if err != nil {
		return err
	}
	if err := t.server.Receive(&t.offer); err != nil {
		return err
	}
	if t.readers[inGo], err = child.Start(ctx, self, "-role", "client"); err != nil {
		return err
	}
	if s.python != "" {
		if t.readers[inPython], err = child.Start(ctx, s.python, filepath.Clean(s.script)); err != nil {
			return err
		}
	}
	found, err := t.all()
	if err != nil {
		return err
	}
	return report(os.Stdout, s, found)
}
