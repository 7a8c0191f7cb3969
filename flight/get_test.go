package flight

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	arrowflight "github.com/apache/arrow-go/v18/arrow/flight"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/penstock/penstock/flight/failure"
	"github.com/penstock/penstock/flight/flighttest"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/jsontext"
	"github.com/penstock/penstock/internal/scenario"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/stream"
)

// TestStreamsEqualTheLoaders reads every shard over the wire and in process, in every wire
// form, and compares them.
func TestStreamsEqualTheLoaders(t *testing.T) {
	w := newWorld(t)
	w.datasets = append(w.datasets, w.requests())
	s := serve(t, Options{Loader: w.loader()})
	for i := range 12 {
		q := dataset.Query{
			Rows:    dataset.Rows{Dataset: "homefeed", Lanes: 4},
			Reading: dataset.Reading{Shard: dataset.Shard{Index: dataset.AllShards, Of: 1 << (i / 4)}, BatchRows: 100, Wire: []dataset.Wire{dataset.WirePlain, dataset.WireIndexed, dataset.WireIndexed, dataset.WireAuto}[i%4]},
		}
		if i%4 > 1 {
			q.Dataset = "requests"
			q.Dense = []dataset.Dense{{Name: "numbers", Columns: []dataset.Column{{Column: "score"}, {Column: "item"}}}}
		}
		shards := q.Shard.Of
		want, err := scenario.Read(context.Background(), w.loader(), q)
		require.NoError(t, err)
		all := s.readAll(t, string(q.Canonical()))
		require.Len(t, all, shards)
		total := 0
		for i, g := range all {
			require.True(t, want[i].Schema.Equal(g.schema), "%s\n%s", want[i].Schema, g.schema)
			require.Equal(t, want[i].Rows(), g.rows)
			require.Len(t, g.cursors, len(want[i].Batches))
			for k, c := range g.cursors {
				require.JSONEq(t, string(want[i].Cursors[k].JSON()), string(c))
			}
			require.NotNil(t, g.report)
			require.Equal(t, jsontext.Of(want[i].Report), jsontext.Of(*g.report))
			total += len(g.rows)
		}
		require.Equal(t, trainingRows, total)
	}
	require.Zero(t, w.budget.Used())
}

// requests is the dataset homefeed with a column that is constant within a request.
func (w *world) requests() dataset.Dataset {
	d := w.datasets[0]
	d.Name, d.Training.RequestLevel = "requests", []string{"request_id"}
	return d
}

// TestAutoSchemaIsInTheStream checks that a plan has the schema of the plain batches, and
// each stream its own schema, which is the same whenever its ticket is redeemed. A stream
// that resumes from a cursor chooses again.
//
// spec: wire-30, wire-31
func TestAutoSchemaIsInTheStream(t *testing.T) {
	w := newWorld(t)
	w.datasets = append(w.datasets, w.requests())
	s, other := serve(t, Options{Loader: w.loader()}), serve(t, Options{Loader: w.loader()})
	planned := func(wire string) *arrow.Schema {
		answer, err := s.GetFlightInfo(context.Background(), flighttest.Command(`{"dataset": "requests", "wire": "`+wire+`"}`))
		require.NoError(t, err)
		schema, err := arrowflight.DeserializeSchema(answer.GetSchema(), memory.DefaultAllocator)
		require.NoError(t, err)
		return schema
	}
	require.True(t, planned("plain").Equal(planned("auto")))
	require.False(t, planned("plain").Equal(planned("indexed")))
	indexed := func(server *served, query string) bool {
		got, err := read(context.Background(), server.Client, s.ticket(t, query))
		require.NoError(t, err)
		found := len(got.schema.FieldIndices("request")) == 1
		require.Equal(t, found, slices.Contains(got.report.Indexed, "request"))
		return found
	}
	first := `{"dataset": "requests", "wire": "auto", "columns": ["request_id"], "batch_rows": 20}`
	require.False(t, indexed(s, first), "the first rows are each of another request")
	require.False(t, indexed(other, first))
	whole := `{"dataset": "requests", "wire": "auto", "columns": ["request_id"], "batch_rows": 1000}`
	require.True(t, indexed(s, whole))
	require.True(t, indexed(other, whole))
	got, err := read(context.Background(), s.Client, s.ticket(t, first))
	require.NoError(t, err)
	require.True(t, indexed(s, fmt.Sprintf(`{"dataset": "requests", "wire": "auto", "columns": ["request_id"], "batch_rows": 500, "cursor": %s}`, got.cursors[0])))
}

// TestErrorsOfRequestsComeOverTheWire checks that the error of a column that is not constant
// arrives with its kind and text, even if it occurs before the schema is sent.
//
// spec: wire-19
func TestErrorsOfRequestsComeOverTheWire(t *testing.T) {
	w := newWorld(t)
	d := w.requests()
	d.Training.RequestLevel = []string{"score"}
	w.datasets = append(w.datasets, d)
	s := serve(t, Options{Loader: w.loader()})
	for _, wire := range []string{"indexed", "auto"} {
		_, err := read(context.Background(), s.Client, s.ticket(t, `{"dataset": "requests", "wire": "`+wire+`"}`))
		require.Equal(t, codes.InvalidArgument, status.Code(err))
		require.ErrorContains(t, err, "column score of table ml.impressions is declared request_level")
	}
	require.Zero(t, w.budget.Used())
}

// TestStreamsResumeOnAnotherServer resumes each stream from each of its cursors, on another
// server with the same keys.
//
// spec: ticket-2
func TestStreamsResumeOnAnotherServer(t *testing.T) {
	w := newWorld(t)
	s, other := serve(t, Options{Loader: w.loader()}), serve(t, Options{Loader: w.loader()})
	answer, err := s.GetFlightInfo(context.Background(), flighttest.Command(`{"dataset": "homefeed", "lanes": 4, "shard": {"of": 2}, "batch_rows": 64}`))
	require.NoError(t, err)
	for shard, e := range answer.GetEndpoint() {
		whole, err := read(context.Background(), other.Client, e.GetTicket())
		require.NoError(t, err)
		at := 0
		for i, c := range whole.cursors {
			at += whole.sizes[i]
			query := fmt.Sprintf(`{"dataset": "homefeed", "shard": {"index": %d, "of": 2}, "batch_rows": 64, "cursor": %s}`, shard, c)
			rest, err := read(context.Background(), other.Client, s.ticket(t, query))
			require.NoError(t, err)
			require.Equal(t, append([][]any(nil), whole.rows[at:]...), rest.rows, "after batch %d of shard %d", i, shard)
			require.NotNil(t, rest.report)
		}
	}
}

// TestCursorsOfAllShards resumes with a different number of shards.
//
// spec: ticket-8
func TestCursorsOfAllShards(t *testing.T) {
	w := newWorld(t)
	s := serve(t, Options{Loader: w.loader()})
	seen := map[any]int{}
	var cursors []json.RawMessage
	for _, g := range s.readAll(t, `{"dataset": "homefeed", "lanes": 4, "shard": {"of": 4}, "batch_rows": 50}`) {
		for _, row := range g.rows[:100] {
			seen[row[1]]++
		}
		cursors = append(cursors, g.cursors[1])
	}
	list, err := json.Marshal(cursors)
	require.NoError(t, err)
	query := fmt.Sprintf(`{"dataset": "homefeed", "shard": {"of": 2}, "cursor": %s}`, list)
	answer, err := s.GetFlightInfo(context.Background(), flighttest.Command(query))
	require.NoError(t, err)
	require.EqualValues(t, trainingRows-400, answer.GetTotalRecords())
	for _, g := range s.readAll(t, query) {
		for _, row := range g.rows {
			seen[row[1]]++
		}
	}
	require.Len(t, seen, trainingRows)
	for item, n := range seen {
		require.Equal(t, 1, n, "item %v", item)
	}
}

// TestSchemaIsSentBeforeRows reads the schema before the source has returned a row.
func TestSchemaIsSentBeforeRows(t *testing.T) {
	w := newWorld(t)
	s := serve(t, Options{Loader: opens(w.loader(), func(ctx context.Context) *canned {
		return &canned{next: func(int) (arrow.RecordBatch, error) { <-ctx.Done(); return nil, ctx.Err() }}
	})})
	ctx, cancel := context.WithCancel(context.Background())
	stream, err := s.DoGet(ctx, s.ticket(t, `{"dataset": "homefeed"}`))
	require.NoError(t, err)
	first, err := stream.Recv()
	require.NoError(t, err)
	require.NotEmpty(t, first.GetDataHeader())
	require.Empty(t, first.GetAppMetadata())
	cancel()
	require.Equal(t, "cancelled", (<-s.ended).End)
}

// TestIncompleteStreamsAreErrors ends streams too early and checks that the client gets an
// error.
func TestIncompleteStreamsAreErrors(t *testing.T) {
	w := newWorld(t)
	group := 3
	corrupt := &fault.Error{Kind: fault.Corrupt, Op: "read split 3", Message: "page checksum differs", Table: "ml.impressions", File: "f.parquet", RowGroup: &group}
	cases := map[string]struct {
		end    func(int) (arrow.RecordBatch, error)
		report func(stream.Report) stream.Report
		code   codes.Code
		want   failure.Details
	}{
		"a read fails": {
			end:  func(int) (arrow.RecordBatch, error) { return nil, corrupt },
			code: codes.DataLoss,
			want: failure.Details{Kind: "corrupt", Message: "read split 3: page checksum differs", Table: "ml.impressions", File: "f.parquet", RowGroup: &group},
		},
		"the report disagrees": {
			end:    func(int) (arrow.RecordBatch, error) { return nil, nil }, //nolint:nilnil // the end
			report: func(r stream.Report) stream.Report { r.Rows++; return r },
			code:   codes.Internal,
			want:   failure.Details{Kind: "internal", Message: "the stream reports 31 rows in 3 batches, 30 in 3 were sent"},
		},
		"a panic": {
			end:  func(int) (arrow.RecordBatch, error) { panic("index out of range") },
			code: codes.Internal,
			want: failure.Details{Kind: "internal", Message: "DoGet panicked: index out of range", Remedy: "this is a bug in the server; its log has the details"},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			released := make(chan struct{})
			s := serve(t, Options{Loader: opens(w.loader(), func(context.Context) *canned {
				return &canned{report: c.report, released: func() { close(released) }, next: func(n int) (arrow.RecordBatch, error) {
					if n < 3 {
						return numbers(10), nil
					}
					return c.end(n)
				}}
			})})
			g, code, d := s.getFailure(t, s.ticket(t, `{"dataset": "homefeed"}`))
			require.Equal(t, c.code, code)
			require.Equal(t, c.want, d)
			require.Nil(t, g.report)
			require.Len(t, g.cursors, 3)
			<-released
			end := <-s.ended
			require.Equal(t, d.Kind, end.End)
			require.EqualValues(t, 30, end.Rows)
			require.Zero(t, s.server.Streams())
		})
	}
}

// TestInlineDatasets checks that a ticket contains an inline dataset, which no server knows
// by name.
//
// spec: ticket-2
func TestInlineDatasets(t *testing.T) {
	w := newWorld(t)
	s := serve(t, Options{Loader: w.loader()})
	named := s.readAll(t, `{"dataset": "homefeed", "columns": ["item", "country"], "filter": "item < 500"}`)[0]
	w.datasets = nil
	other := serve(t, Options{Loader: w.loader()})
	ticket := s.ticket(t, fmt.Sprintf(`{"dataset": %s, "columns": ["item", "country"], "filter": "item < 500"}`, `{
		"training": {"table": "ml.impressions"}, "key": ["request_id"],
		"staging": [{"table": "features.history", "key": {"request_id": "req"}}]}`))
	inline, err := read(context.Background(), other.Client, ticket)
	require.NoError(t, err)
	require.Len(t, inline.rows, 500)
	require.Equal(t, named.rows, inline.rows)
	require.Empty(t, (<-other.ended).Dataset)
}
