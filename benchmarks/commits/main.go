// Command commits measures what changes of a large table cost: stage in its two modes, each taken back by undo,
// through an SQL catalog and through Iceberg's own REST server in front of the same database.
//
//	go run ./benchmarks/commits -penstock bin/penstock [-rest .bin/rest-jars] [-rounds 3]
//
// The table has 64 days of 64 buckets, 4,096 partitions, and 40,000 data files that exist in 40 manifests only, with the
// bounds of all columns. Each change is a command of its own, from its start to its end: with the rows of one day in 64
// buckets, so that 64 files are written, and in mode replace about 625 files removed. A proxy in front of the REST server
// measures how long the program waits for that server's answers.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"time"
)

// table is the table that is changed.
const table = "ml.history"

func main() {
	if err := run(context.Background(), os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "commits:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, arguments []string) error {
	flags := flag.NewFlagSet("commits", flag.ContinueOnError)
	program := flags.String("penstock", "bin/penstock", "the program that is measured")
	rest := flags.String("rest", "", "the folder of the REST server's jars; none: SQL alone")
	rounds := flags.Int("rounds", 3, "how often each change is made")
	if err := flags.Parse(arguments); err != nil {
		return err
	}
	folder, err := os.MkdirTemp("", "commits")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(folder) }()
	if err := write(ctx, folder); err != nil {
		return fmt.Errorf("make the table: %w", err)
	}
	m := measuring{program: *program, folder: folder, costs: map[string][]cost{}}
	catalogs := map[string]map[string]any{"sql": {"type": "sql", "uri": "sqlite:///" + filepath.Join(folder, "catalog.db"), "warehouse": "file://" + folder}}
	kinds := []string{"sql"}
	if *rest != "" {
		uri, stop, err := serve(ctx, *rest, folder)
		if err != nil {
			return err
		}
		defer stop()
		if m.calls, err = measure(uri); err != nil {
			return err
		}
		defer m.calls.server.Close()
		catalogs["rest"] = map[string]any{"type": "rest", "uri": m.calls.server.URL}
		kinds = append(kinds, "rest")
	}
	for range *rounds {
		for _, kind := range kinds {
			if err := m.round(ctx, kind, catalogs[kind]); err != nil {
				return fmt.Errorf("%s: %w", kind, err)
			}
		}
	}
	m.print(kinds)
	return nil
}

// cost is the cost of a command: seconds by the clock, seconds that the REST server took to answer, and CPU seconds of
// the command's process.
type cost struct{ wall, answers, cpu float64 }

// measuring runs commands and keeps their costs.
type measuring struct {
	program, folder string
	calls           *restCalls // nil without a REST server
	costs           map[string][]cost
}

// changes are the measured commands in their order.
func changes() []string {
	return []string{"stage", "undo of stage", "stage --mode replace", "undo of replace"}
}

// round makes each change once.
func (m *measuring) round(ctx context.Context, kind string, catalog map[string]any) error {
	catalog["writes"] = map[string]any{"namespaces": []string{"ml"}}
	content, err := json.Marshal(map[string]any{"catalogs": map[string]any{"default": catalog}, "datasets": map[string]any{}})
	if err != nil {
		return err
	}
	config := filepath.Join(m.folder, kind+".yaml")
	if err := os.WriteFile(config, content, 0o600); err != nil {
		return err
	}
	for i, mode := range []string{"append", "replace"} {
		answer, err := m.timed(ctx, kind+changes()[2*i], "stage", table, filepath.Join(m.folder, rowsFile), "--mode", mode, "--key", "k", "--allow-duplicates", "--allow-shrink", "--json", "--config", config)
		if err != nil {
			return err
		}
		var made struct {
			Snapshot, Parent int64 `json:",string"`
		}
		if err := json.Unmarshal(answer, &made); err != nil {
			return err
		}
		_, err = m.timed(ctx, kind+changes()[2*i+1], "undo", table, "--from", strconv.FormatInt(made.Parent, 10), "--to", strconv.FormatInt(made.Snapshot, 10), "--config", config)
		if err != nil {
			return err
		}
	}
	return nil
}

// timed runs a command and keeps its cost.
func (m *measuring) timed(ctx context.Context, what string, arguments ...string) ([]byte, error) {
	c := exec.CommandContext(ctx, m.program, arguments...)
	var failure bytes.Buffer
	c.Stderr = &failure
	answered, began := m.calls.seconds(), time.Now()
	out, err := c.Output()
	if err != nil {
		return nil, errors.Join(err, errors.New(failure.String()))
	}
	used := c.ProcessState.UserTime() + c.ProcessState.SystemTime()
	m.costs[what] = append(m.costs[what], cost{time.Since(began).Seconds(), m.calls.seconds() - answered, used.Seconds()})
	return out, nil
}

// print prints medians and maxima.
func (m *measuring) print(kinds []string) {
	fmt.Println("| change | catalog | s, median | s, maximum | of these the REST server's, median | CPU s, median |")
	fmt.Println("|---|---|---:|---:|---:|---:|")
	for _, change := range changes() {
		for _, kind := range kinds {
			of := m.costs[kind+change]
			var walls, answers, cpus []float64
			for _, c := range of {
				walls, answers, cpus = append(walls, c.wall), append(answers, c.answers), append(cpus, c.cpu)
			}
			slices.Sort(walls)
			slices.Sort(answers)
			slices.Sort(cpus)
			fmt.Printf("| %s | %s | %.2f | %.2f | %.2f | %.2f |\n", change, kind, walls[len(walls)/2], walls[len(walls)-1], answers[len(answers)/2], cpus[len(cpus)/2])
		}
	}
}
