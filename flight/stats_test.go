package flight

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	arrowflight "github.com/apache/arrow-go/v18/arrow/flight"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"

	"github.com/penstock/penstock/flight/describe"
	"github.com/penstock/penstock/flight/flighttest"
	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/catalog/history"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/plan"
	"github.com/penstock/penstock/loader/statistics"
	"github.com/penstock/penstock/loader/statistics/entries"
)

// describer describes the tables of a world. The columns of a table are in its one file per bucket.
type describer struct {
	world  *world
	budget *budget.Budget
	begun  chan struct{} // if it is not nil, the second batch waits for the end of the call, after a message
}

func (d describer) DescribeTable(ctx context.Context, r describe.Request) (*statistics.Result, error) {
	return statistics.New(statistics.Options{Tables: d.world.World, Read: d.read, Budget: d.budget}).Describe(ctx, statistics.Request{
		History: &history.Table{Name: r.Of}, Columns: r.Columns, MaxColumns: 2, Rights: r.Rights, Progress: r.Read,
	})
}

func (d describer) DescribeDataset(ctx context.Context, r describe.Request) (*entries.Result, error) {
	return entries.Describe(ctx, entries.Options{Loader: d.world.loader(), Budget: d.budget}, entries.Request{Dataset: r.Of, Rights: r.Rights, Progress: r.Read})
}

// read reads rows of a table.
func (d describer) read(ctx context.Context, source plan.Source, columns []catalog.Field) (array.RecordReader, error) {
	rows, err := d.world.Scan(ctx, source, columns)
	if err != nil || d.begun == nil {
		return rows, err
	}
	first := true
	return batch.FromFunc(rows.Schema(), func() (arrow.RecordBatch, error) {
		if !first {
			d.begun <- struct{}{}
			<-ctx.Done()
			return nil, context.Cause(ctx)
		}
		first = false
		if !rows.Next() {
			return nil, rows.Err()
		}
		b := rows.RecordBatch()
		b.Retain()
		return b, nil
	}, rows.Release), nil
}

// stats calls the action, and returns its results.
func stats(ctx context.Context, client arrowflight.Client, body string) (results []json.RawMessage, err error) {
	stream, err := client.DoAction(ctx, &arrowflight.Action{Type: "stats", Body: []byte(body)})
	for err == nil {
		var answer *arrowflight.Result
		if answer, err = stream.Recv(); err != nil {
			break
		}
		var message struct {
			Result json.RawMessage `json:"result"`
		}
		if err = json.Unmarshal(answer.GetBody(), &message); message.Result != nil {
			results = append(results, message.Result)
		}
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return results, err
}

// spec: stats-75, stats-77
func TestStatsOfTablesAndDatasets(t *testing.T) {
	w := newWorld(t)
	of := describer{world: w, budget: budget.New(1 << 30)}
	s := serve(t, Options{Loader: w.loader(), Describer: of, Budget: of.budget, MaxStreams: 1})
	results, err := stats(t.Context(), s.Client, `{"of": "ml.impressions", "columns": ["item", "score"], "html": true, "progress": true}`)
	require.NoError(t, err)
	require.Len(t, results, 2)
	var table statistics.Result
	require.NoError(t, json.Unmarshal(results[0], &table))
	require.Equal(t, []any{int64(trainingRows), 2}, []any{table.Rows, len(table.Columns)})
	var page struct{ HTML string }
	require.NoError(t, json.Unmarshal(results[1], &page))
	require.Contains(t, page.HTML, "<title>Statistics of ml.impressions</title>")
	results, err = stats(t.Context(), s.Client, `{"of": "homefeed"}`)
	require.NoError(t, err)
	require.Len(t, results, 1)
	require.Contains(t, string(results[0]), `"dataset":"homefeed"`)
	for body, want := range map[string]codes.Code{
		`{`: codes.InvalidArgument, `{"of": "gone"}`: codes.NotFound, `{"of": "nothing"}`: codes.NotFound, `{"of": "ml.impressions"}`: codes.InvalidArgument,
		`{"of": "homefeed", "keep": true}`: codes.InvalidArgument, `{"of": "homefeed", "at": "main"}`: codes.InvalidArgument,
	} {
		_, err = stats(t.Context(), s.Client, body)
		code, _ := flighttest.FailureOf(t, err, nil)
		require.Equal(t, want, code, body)
	}
	require.Zero(t, of.budget.Used())
	require.Zero(t, s.server.Streams())
}

// A description takes the slot of a stream. When its call is canceled or its client is gone, the scan ends, and its memory is free.
//
// spec: stats-75, stats-76
func TestStatsEndWithTheirCalls(t *testing.T) {
	w := newWorld(t)
	of := describer{world: w, budget: budget.New(1 << 30), begun: make(chan struct{})}
	s := serve(t, Options{Loader: w.loader(), Describer: of, Budget: of.budget, MaxStreams: 1})
	const body = `{"of": "ml.impressions", "columns": ["item"]}`
	begin := func(ctx context.Context, client arrowflight.Client) <-chan error {
		ended := make(chan error, 1)
		go func() {
			_, err := stats(ctx, client, body)
			ended <- err
		}()
		<-of.begun
		require.Positive(t, of.budget.Used())
		return ended
	}
	isFree := func() bool { return of.budget.Used() == 0 && s.server.Streams() == 0 }
	for name, end := range map[string]func() (<-chan error, codes.Code){
		"canceled": func() (<-chan error, codes.Code) {
			ctx, cancel := context.WithCancel(t.Context())
			ended := begin(ctx, s.Client)
			waiting, leave := context.WithCancel(t.Context())
			defer leave()
			s.fillQueue(waiting, t, s.ticket(t, `{"dataset": "homefeed"}`))
			_, err := stats(t.Context(), s.Client, body)
			code, _ := flighttest.FailureOf(t, err, nil)
			require.Equal(t, codes.ResourceExhausted, code, "it waits for a slot as streams do")
			cancel()
			return ended, codes.Canceled
		},
		"killed": func() (<-chan error, codes.Code) {
			other := dial(t, s.address)
			ended := begin(t.Context(), other)
			require.NoError(t, other.Close())
			return ended, codes.Canceled
		},
	} {
		ended, want := end()
		code, _ := flighttest.FailureOf(t, <-ended, nil)
		require.Equal(t, want, code, name)
		require.Eventually(t, isFree, time.Minute, time.Millisecond, name)
	}
}

// The name of a dataset that a caller may not read is answered like that of a table that does not exist, also if it has a point.
//
// spec: access-12
func TestStatsHideDatasetsWithPoints(t *testing.T) {
	t.Parallel()
	of := people{}
	w := of.world(t)
	w.datasets = append(w.datasets, dataset.Dataset{Name: "team.pay", Training: dataset.Training{Table: "hr.salaries"}})
	d := describer{world: w, budget: budget.New(1 << 30)}
	s := serve(t, Options{Loader: w.loader(), Describer: d, Budget: d.budget, Authenticate: known, Policy: of.limited})
	_, hidden := stats(bob(t), s.Client, `{"of": "team.pay"}`)
	_, none := stats(bob(t), s.Client, `{"of": "team.nil"}`)
	require.EqualError(t, hidden, strings.ReplaceAll(none.Error(), "team.nil", "team.pay"))
	results, err := stats(alice(t), s.Client, `{"of": "team.pay"}`)
	require.NoError(t, err)
	require.Contains(t, string(results[0]), `"dataset":"team.pay"`)
}
