// Command deletes measures what deletes cost: the tables of T (benchmarks/README.md), of
// whose training rows one in ten is deleted by vectors, by position deletes or by
// equality deletes, beside T without deletes. The four take turns.
//
//	go run ./benchmarks/deletes [-program bin/penstock] [-full .bench/full] [-tables .bench/deletes] [-rounds 5]
//
// Each turn is one server, which reads the table twice; the second pass is timed. Two
// ratios to T without deletes are printed: of the speed at which the stored rows are
// gone through, and of the rows given per second, of which there are fewer. The command
// makes the tables if they are not there, and exits with 1 if vectors reach less than 0.9
// of the speed or position deletes less than 0.8.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/apache/arrow-go/v18/arrow/flight"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// What a variant must reach of the speed of T without deletes.
func (v variant) least() float64 {
	switch v {
	case vectors:
		return 0.9
	case positions:
		return 0.8
	case none, equality:
	}
	return 0
}

func main() {
	if err := run(context.Background(), os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "deletes:", err)
		os.Exit(1)
	}
}

const finished = "finished"

func run(ctx context.Context, arguments []string) error {
	flags := flag.NewFlagSet("deletes", flag.ContinueOnError)
	program := flags.String("program", "bin/penstock", "the server")
	full := flags.String("full", ".bench/full", "where T is: make bench makes it")
	folder := flags.String("tables", ".bench/deletes", "where the tables are, or are made")
	rounds := flags.Int("rounds", 5, "turns of each")
	if err := flags.Parse(arguments); err != nil {
		return err
	}
	home, err := filepath.Abs(*folder)
	if err != nil {
		return err
	}
	from, err := filepath.Abs(*full)
	if err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(home, finished)); errors.Is(err, fs.ErrNotExist) {
		if err := errors.Join(os.RemoveAll(home), write(ctx, home, from), config(home, from)); err != nil {
			return fmt.Errorf("make the tables: %w", err)
		}
		if err := os.WriteFile(filepath.Join(home, finished), nil, 0o600); err != nil {
			return err
		}
	}
	measured := make([][]pass, len(variants()))
	for range *rounds {
		for i, v := range variants() {
			p, err := measure(ctx, *program, home, v)
			if err != nil {
				return fmt.Errorf("%s: %w", v, err)
			}
			measured[i] = append(measured[i], p)
		}
	}
	return report(measured)
}

// config writes what the server serves.
func config(home, full string) error {
	text := fmt.Sprintf("catalogs:\n  default: {type: sql, uri: \"sqlite:///%s/catalog.db\"}\n  full: {type: sql, name: default, uri: \"sqlite:///%s/catalog.db\"}\ndatasets:\n", home, full)
	var textSb98 strings.Builder
	for _, v := range variants() {
		fmt.Fprintf(&textSb98, "  %s: {training: {table: bench.%s}, key: [request_id], staging: [{table: full.bench.staging}]}\n", v, v)
	}
	text += textSb98.String()
	return os.WriteFile(filepath.Join(home, "penstock.yaml"), []byte(text), 0o600)
}

// pass is one reading of a table.
type pass struct {
	rows int64
	took time.Duration
	cpu  float64 // seconds of the server's
}

func (p pass) given() float64 { return float64(p.rows) / p.took.Seconds() }

// measure starts a server and reads a table twice.
func measure(ctx context.Context, program, home string, v variant) (pass, error) {
	address, err := free(ctx)
	if err != nil {
		return pass{}, err
	}
	server := exec.CommandContext(ctx, program, "serve", "--config", filepath.Join(home, "penstock.yaml"), "--listen", address) //nolint:gosec // the program under test
	server.Stderr = os.Stderr
	if os.Getenv("DELETES_LOG") == "" {
		server.Stderr = nil
	}
	if err := server.Start(); err != nil {
		return pass{}, err
	}
	defer func() {
		_ = server.Process.Signal(os.Interrupt)
		_ = server.Wait()
	}()
	client, err := flight.NewClientWithMiddleware(address, nil, nil, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(1<<30), grpc.WaitForReady(true)))
	if err != nil {
		return pass{}, err
	}
	defer client.Close() //nolint:errcheck // it is over
	if _, err := read(ctx, client, v); err != nil {
		return pass{}, err
	}
	before, err := cpuOf(server.Process.Pid)
	if err != nil {
		return pass{}, err
	}
	p, err := read(ctx, client, v)
	if err != nil {
		return pass{}, err
	}
	after, err := cpuOf(server.Process.Pid)
	p.cpu = after - before
	return p, err
}

// cpuOf is the CPU time that a process has taken, in seconds (proc(5): fields 14 and 15 of
// stat, in hundredths).
func cpuOf(pid int) (float64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	const user, system = 11, 12 // behind the name
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

// free is an address that nobody listens at.
func free(ctx context.Context) (string, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

// read reads a dataset whole.
func read(ctx context.Context, client flight.Client, v variant) (pass, error) {
	begun := time.Now()
	info, err := client.GetFlightInfo(ctx, &flight.FlightDescriptor{Type: flight.DescriptorPATH, Path: []string{string(v)}})
	if err != nil {
		return pass{}, err
	}
	var p pass
	for _, e := range info.Endpoint {
		stream, err := client.DoGet(ctx, e.Ticket)
		if err != nil {
			return pass{}, err
		}
		rows, err := drain(stream)
		if err != nil {
			return pass{}, err
		}
		p.rows += rows
	}
	p.took = time.Since(begun)
	if info.TotalRecords >= 0 && info.TotalRecords != p.rows {
		return pass{}, fmt.Errorf("%d rows came, %d were promised", p.rows, info.TotalRecords)
	}
	return p, nil
}

// drain takes a stream's messages, and returns the rows that the report counts, which is
// the last of them: what a client makes of batches is not measured.
func drain(stream flight.FlightService_DoGetClient) (int64, error) {
	var last []byte
	for {
		message, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return 0, err
		}
		last = message.GetAppMetadata()
	}
	var report struct {
		Report struct {
			Rows int64 `json:"rows"`
		} `json:"report"`
	}
	return report.Report.Rows, json.Unmarshal(last, &report)
}

// report prints medians, and says which are too slow.
func report(measured [][]pass) error {
	var slow error
	fmt.Println("| deleted by | rows | seconds | server's CPU s | speed of none's | at least | rows given/s of none's |")
	fmt.Println("|---|---:|---:|---:|---:|---:|---:|")
	first := middle(measured[0])
	for i, v := range variants() {
		p := middle(measured[i])
		ratio := first.took.Seconds() / p.took.Seconds()
		fmt.Printf("| %s | %d | %.2f | %.2f | %.2f | %.1f | %.2f |\n", v, p.rows, p.took.Seconds(), p.cpu, ratio, v.least(), p.given()/first.given())
		if ratio < v.least() {
			slow = errors.Join(slow, fmt.Errorf("%s: %.2f of the speed without", v, ratio))
		}
	}
	return slow
}

// middle is the pass of median time.
func middle(all []pass) pass {
	slices.SortFunc(all, func(a, b pass) int { return int(a.took - b.took) })
	return all[len(all)/2]
}
