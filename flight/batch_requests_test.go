package flight

import (
	"context"
	"encoding/json"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/flight/flighttest"
)

// FlightInfo and reports count requests and rows separately, also if a row is a request.
//
// spec: request-7, request-9, wire-38, endpoint-18
func TestGroupedRequests(t *testing.T) {
	w := newWorld(t)
	var sent atomic.Int64
	s := serve(t, Options{Loader: w.loader(), Observer: Observer{BatchSent: func(_, _ string, rows, _, _ int64) { sent.Add(rows) }}})
	const query = `{"dataset": "homefeed", "columns": ["request_id", "item", "country"], "order": "shuffled", "lanes": 2, "shard": {"of": 2}, "batch_requests": 5`
	summary := func(more string) (said map[string]any, records int64) {
		answer, err := s.GetFlightInfo(context.Background(), flighttest.Command(query+more+"}"))
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(answer.GetAppMetadata(), &said))
		require.EqualValues(t, 5, said["batch_requests"])
		require.NotContains(t, said, "batch_rows")
		require.EqualValues(t, trainingRows, said["rows"], "rows are not requests")
		for _, e := range answer.GetEndpoint() {
			var m endpointMetadata
			require.NoError(t, json.Unmarshal(e.GetAppMetadata(), &m))
			require.EqualValues(t, unknown, m.Rows, "the rows of a lane's requests are unknown")
		}
		return said, answer.GetTotalRecords()
	}
	said, records := summary("")
	require.EqualValues(t, unknown, said["steps"])
	require.EqualValues(t, trainingRows, records)
	said, records = summary(`, "count": "exact"`)
	require.EqualValues(t, trainingRows, records)
	answer, err := s.GetFlightInfo(context.Background(), flighttest.Command(query+`, "count": "exact"}`))
	require.NoError(t, err)
	longest := 0
	rows, requests := int64(0), map[any]bool{}
	for i, g := range s.readAll(t, query+`, "wire": "grouped"}`) {
		longest = max(longest, len(g.sizes))
		var m endpointMetadata
		require.NoError(t, json.Unmarshal(answer.GetEndpoint()[i].GetAppMetadata(), &m))
		require.EqualValues(t, len(g.sizes), m.Batches)
		of := int64(0)
		for _, row := range g.rows {
			require.False(t, requests[row[0]], "a window has all rows of a bucket")
			requests[row[0]] = true
			of += int64(len(row[1].([]any)))
		}
		require.Equal(t, of, g.report.Rows)
		require.EqualValues(t, len(g.rows), g.report.Requests)
		rows += of
	}
	require.EqualValues(t, trainingRows, rows)
	require.Equal(t, rows, sent.Load())
	require.Len(t, requests, 101)
	require.EqualValues(t, longest, said["steps"])

	said, records = summary(`, "tail": "drop"`)
	require.EqualValues(t, unknown, records)
	for _, g := range s.readAll(t, query+`, "tail": "drop"}`) {
		require.Len(t, g.sizes, int(said["steps"].(float64)))
		require.NotEmpty(t, g.sizes)
		require.EqualValues(t, 5*len(g.sizes), g.report.Requests)
		require.Greater(t, g.report.Rows, g.report.Requests)
	}
}
