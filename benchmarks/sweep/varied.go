package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/penstock/penstock/benchmarks/passes"
)

// variedJobs is the number of jobs that vary: two of each kind.
const variedJobs = 8

// variedQueries returns their queries, those with the most columns and the largest batches first.
func (s *sweep) variedQueries(ctx context.Context, form string) (all []string, err error) {
	server, err := s.turns.Start(ctx, s.config, "--share-batches", "0")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, server.Close()) }()
	client, err := passes.Connect(server.Address)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, client.Close()) }()
	names, err := client.Columns(ctx, query("plain", ""))
	if err != nil {
		return nil, err
	}
	var half []string
	for i := 0; i < len(names); i += 2 {
		half = append(half, names[i])
	}
	columns, err := json.Marshal(half)
	if err != nil {
		return nil, err
	}
	for _, rows := range []int{8192, 4096} {
		for _, more := range []string{"", fmt.Sprintf(`, "columns": %s`, columns)} {
			asked := fmt.Sprintf(`{"dataset": "t", "wire": %q, "batch_rows": %d%s}`, form, rows, more)
			all = append(all, asked, asked)
		}
	}
	return all, nil
}

// checkVaried compares what jobs that vary receive from a server that shares, and from one that does not. Of
// indexed batches it compares the cursors: a part of a dictionary may have other padding.
func (s *sweep) checkVaried(ctx context.Context, form string) error {
	queries, err := s.variedQueries(ctx, form)
	if err != nil {
		return err
	}
	cursors := form == "indexed"
	alone, err := s.received(ctx, "0", queries, cursors)
	if err != nil {
		return err
	}
	shared, err := s.received(ctx, s.window, queries, cursors)
	if err != nil {
		return err
	}
	read := [2]int64{}
	for i := range queries {
		if !slices.Equal(shared[i].messages, alone[i].messages) {
			return fmt.Errorf("a job received other messages than alone: %s", queries[i])
		}
		if !maps.Equal(counts(shared[i].report), counts(alone[i].report)) {
			return fmt.Errorf("a job has the report %+v, not %+v: %s", shared[i].report, alone[i].report, queries[i])
		}
		for k, of := range []seen{alone[i], shared[i]} {
			for _, table := range of.report.Staging {
				read[k] += table.BytesRead
			}
		}
	}
	fmt.Printf("checked: %d jobs that vary received what each receives alone; all together read %d MB of the staging table instead of %d\n",
		len(queries), read[1]>>20, read[0]>>20)
	return nil
}

// received returns what jobs receive that read a query each at once.
func (s *sweep) received(ctx context.Context, window string, queries []string, cursors bool) (all []seen, err error) {
	server, err := s.turns.Start(ctx, s.config, "--share-batches", window)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, server.Close()) }()
	all = make([]seen, len(queries))
	failures := make([]error, len(queries))
	var group sync.WaitGroup
	for i, asked := range queries {
		j, err := newJob(server.Address, true)
		if err != nil {
			return nil, err
		}
		j.cursors = cursors
		group.Go(func() { all[i], failures[i] = j.read(ctx, asked, nil) })
	}
	group.Wait()
	return all, errors.Join(failures...)
}
