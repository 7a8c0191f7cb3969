package flight

import (
	"context"
	"testing"
	"time"

	arrowflight "github.com/apache/arrow-go/v18/arrow/flight"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"

	"github.com/penstock/penstock/flight/flighttest"
)

// reportStall calls the action.
func (s *served) reportStall(body string, options ...grpc.CallOption) ([]byte, error) {
	stream, err := s.DoAction(context.Background(), &arrowflight.Action{Type: "stall", Body: []byte(body)}, options...)
	if err != nil {
		return nil, err
	}
	result, err := stream.Recv()
	return result.GetBody(), err
}

// Reports are observed unchanged, for configured datasets and for those that queries carry.
//
// spec: status-20
func TestStallReportsAreObserved(t *testing.T) {
	w := newWorld(t)
	var seen []Stall
	s := serve(t, Options{Loader: w.loader(), Observer: Observer{Stalled: func(told Stall) { seen = append(seen, told) }}})
	for _, body := range []string{
		`{"dataset": "homefeed", "plan": "p1", "rows": 7, "batches": 2, "seconds": 1.5, "waited": 0.25}`,
		`{"dataset": "", "plan": "p2", "rows": 9007199254740992, "batches": 0, "seconds": 2592000, "waited": 2592000}`,
		`{}`,
	} {
		text, err := s.reportStall(body)
		require.NoError(t, err)
		require.JSONEq(t, "{}", string(text))
	}
	const month = 30 * 24 * time.Hour
	require.Equal(t, []Stall{
		{Dataset: "homefeed", Plan: "p1", Rows: 7, Batches: 2, Took: 1500 * time.Millisecond, Waited: 250 * time.Millisecond},
		{Plan: "p2", Rows: 1 << 53, Took: month, Waited: month},
		{},
	}, seen)
}

// Impossible reports are refused and not observed, so that clients cannot corrupt metrics.
//
// spec: status-20
func TestImpossibleStallReportsAreRefused(t *testing.T) {
	w := newWorld(t)
	s := serve(t, Options{Loader: w.loader(), Observer: Observer{Stalled: func(told Stall) { t.Errorf("observed: %v", told) }}})
	for body, want := range map[string]struct {
		code  codes.Code
		field string
	}{
		``:                                 {codes.InvalidArgument, ""},
		`{`:                                {codes.InvalidArgument, ""},
		`{} {}`:                            {codes.InvalidArgument, ""},
		`{"row": 1}`:                       {codes.InvalidArgument, "row"},
		`{"rows": 1.5}`:                    {codes.InvalidArgument, "rows"},
		`{"seconds": 1e999}`:               {codes.InvalidArgument, "seconds"},
		`{"rows": -1}`:                     {codes.InvalidArgument, "rows"},
		`{"batches": 9007199254740993}`:    {codes.InvalidArgument, "batches"},
		`{"seconds": -1}`:                  {codes.InvalidArgument, "seconds"},
		`{"seconds": 2592001}`:             {codes.InvalidArgument, "seconds"},
		`{"seconds": 1, "waited": -0.5}`:   {codes.InvalidArgument, "waited"},
		`{"seconds": 1, "waited": 1.5}`:    {codes.InvalidArgument, "waited"},
		`{"dataset": "homefed", "rows":1}`: {codes.NotFound, "dataset"},
	} {
		var trailer metadata.MD
		_, err := s.reportStall(body, grpc.Trailer(&trailer))
		code, d := flighttest.FailureOf(t, err, trailer)
		require.Equal(t, want.code, code, body)
		if want.field != "" {
			require.Len(t, d.Faults, 1, body)
			require.Equal(t, want.field, d.Faults[0].Field, body)
		}
		if want.code == codes.NotFound {
			require.Equal(t, "homefeed", d.Faults[0].Nearest, "the name that is meant")
		}
	}
}
