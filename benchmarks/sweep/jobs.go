package main

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/apache/arrow-go/v18/arrow/flight"
	"google.golang.org/grpc"

	"github.com/penstock/penstock/benchmarks/passes"
)

// window is the receive window of a job in bytes. gRPC would adapt it to what it measures, and on a
// machine whose cores are busy it gives some clients several times the window of others.
const window = 512 << 10

// The jobs that read in their own ways, and how many jobs there must be.
const (
	late    = 1
	slow    = 2
	ended   = 3
	minJobs = 4
)

// seen is what a job received.
type seen struct {
	messages []uint32 // the checksum of each, with its cursor
	batches  int
	report   passes.Report
	first    time.Duration // to the first batch
}

// job receives the messages of a query. Other jobs read its progress.
type job struct {
	client   *passes.Client
	sums     bool         // compute checksums
	cursors  bool         // of cursors alone
	received atomic.Int64 // messages
	ended    chan struct{}
}

// newJob returns a job with a connection of its own, as a process would have. read closes it.
func newJob(address string, sums bool) (*job, error) {
	client, err := passes.Connect(address, grpc.WithInitialWindowSize(window), grpc.WithInitialConnWindowSize(window))
	return &job{client: client, sums: sums, ended: make(chan struct{})}, err
}

// errEnough ends a job that needs no more messages.
var errEnough = errors.New("enough")

// read receives a query's messages. It calls after, which may be nil, with each one's number.
func (j *job) read(ctx context.Context, asked string, after func(n int, m *flight.FlightData) error) (seen, error) {
	defer close(j.ended)
	defer j.client.Close() //nolint:errcheck // nothing is left to receive
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var s seen
	table := crc32.MakeTable(crc32.Castagnoli)
	begun := time.Now()
	var err error
	s.report, err = j.client.Receive(ctx, asked, func(m *flight.FlightData) error {
		if len(m.GetDataBody()) > 0 && s.first == 0 {
			s.first = time.Since(begun)
		}
		if len(m.GetAppMetadata()) > 0 {
			s.batches++
		}
		sum := uint32(0)
		if j.sums {
			sum = crc32.Update(sum, table, m.GetAppMetadata())
			if !j.cursors {
				sum = crc32.Update(sum, table, m.GetDataHeader())
				sum = crc32.Update(sum, table, m.GetDataBody())
			}
		}
		s.messages = append(s.messages, sum)
		j.received.Add(1)
		if after == nil {
			return nil
		}
		return after(len(s.messages), m)
	})
	if errors.Is(err, errEnough) {
		err = nil
	}
	return s, err
}

// wait waits until another job has received a number of messages, or has ended.
func (j *job) wait(messages int64) {
	for j.received.Load() < messages {
		select {
		case <-j.ended:
			return
		case <-time.After(time.Millisecond):
		}
	}
}

// check compares jobs that share, of which some read in their own ways, with one that does not. It returns
// what they cost.
func (s *sweep) check(ctx context.Context, form string) (u uneven, err error) {
	alone, err := s.alone(ctx, form)
	if err != nil {
		return u, err
	}
	metrics, err := passes.Free(ctx)
	if err != nil {
		return u, err
	}
	server, err := s.turns.Start(ctx, s.config, "--share-batches", s.window, "--metrics", metrics)
	if err != nil {
		return u, err
	}
	defer server.Close()                                                                     //nolint:errcheck // its failures are those of the jobs
	if _, err := atOnce(ctx, server.Address, []string{query(form, "")}, false); err != nil { // warms it
		return u, err
	}
	before, err := server.CPU()
	if err != nil {
		return u, err
	}
	all := len(alone.messages)
	jobs := make([]*job, s.jobs)
	for i := range jobs {
		if jobs[i], err = newJob(server.Address, true); err != nil {
			return u, err
		}
	}
	first := jobs[0]
	got, failures := make([]seen, s.jobs), make([]error, s.jobs)
	var group sync.WaitGroup
	for i, j := range jobs {
		group.Go(func() {
			switch i {
			case late:
				first.wait(int64(all / 4))
				got[i], failures[i] = j.read(ctx, query(form, ""), nil)
			case slow:
				got[i], failures[i] = j.read(ctx, query(form, ""), func(n int, _ *flight.FlightData) error {
					first.wait(int64(2 * n))
					return nil
				})
			case ended:
				got[i], failures[i] = killed(ctx, j, server.Address, form, all/3)
			default:
				got[i], failures[i] = j.read(ctx, query(form, ""), nil)
			}
		})
	}
	group.Wait()
	if err := errors.Join(failures...); err != nil {
		return u, err
	}
	after, err := server.CPU()
	if err != nil {
		return u, err
	}
	u.cpu = after - before
	shared, err := passes.Metric(ctx, metrics, "penstock_sharing_batches_total")
	if err != nil {
		return u, err
	}
	batches := 0
	for i := range got {
		batches += got[i].batches
	}
	u.read = (float64(batches) - shared) / float64(alone.batches)
	return u, same(alone, got)
}

// uneven is what jobs cost of which one is late, one slow, and one ends and resumes.
type uneven struct {
	cpu  float64 // seconds of the server
	read float64 // batches that were read, by those of one job
}

// alone returns what a job receives from a server that shares nothing.
func (s *sweep) alone(ctx context.Context, form string) (got seen, err error) {
	server, err := s.turns.Start(ctx, s.config, "--share-batches", "0")
	if err != nil {
		return got, err
	}
	defer func() { err = errors.Join(err, server.Close()) }()
	j, err := newJob(server.Address, true)
	if err != nil {
		return got, err
	}
	return j.read(ctx, query(form, ""), nil)
}

// killed reads up to a message, and resumes from the cursor of the last batch before it.
func killed(ctx context.Context, j *job, address, form string, after int) (seen, error) {
	cursor, sums := "", 0
	before, err := j.read(ctx, query(form, ""), func(n int, m *flight.FlightData) error {
		if len(m.GetAppMetadata()) > 0 {
			cursor, sums = string(m.GetAppMetadata()), n
		}
		if n >= after && cursor != "" {
			return errEnough
		}
		return nil
	})
	if err != nil {
		return before, err
	}
	resumed, err := newJob(address, true)
	if err != nil {
		return before, err
	}
	rest, err := resumed.read(ctx, query(form, fmt.Sprintf(`, "cursor": [%s]`, cursor)), nil)
	if err != nil {
		return before, err
	}
	rest.batches += before.batches
	rest.messages = append(before.messages[:sums:sums], rest.messages[1:]...) // without its schema
	return rest, nil
}

// same returns an error if jobs did not receive what one alone did.
func same(alone seen, all []seen) error {
	read, once := int64(0), int64(0)
	for i, s := range all {
		if !slices.Equal(s.messages, alone.messages) {
			return fmt.Errorf("job %d received other messages: %d, not %d", i, len(s.messages), len(alone.messages))
		}
		for _, of := range s.report.Staging {
			read += of.BytesRead
		}
		if i != ended && !maps.Equal(counts(s.report), counts(alone.report)) { // its counts are those since it resumed
			return fmt.Errorf("job %d has the report %+v, not %+v", i, s.report, alone.report)
		}
	}
	for _, of := range alone.report.Staging {
		once += of.BytesRead
	}
	fmt.Printf("checked: %d jobs received %d equal messages each; all together read %.2f times the bytes of the staging table\n",
		len(all), len(alone.messages), float64(read)/float64(once))
	return nil
}

// counts returns the counts of a report, without bytes.
func counts(r passes.Report) map[string]passes.StagingReport {
	out := map[string]passes.StagingReport{"": {Rows: r.Rows}}
	for name, of := range r.Staging {
		of.BytesRead = 0
		out[name] = of
	}
	return out
}
