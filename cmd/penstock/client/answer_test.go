package client

import (
	"context"
	"net"
	"strings"
	"testing"

	arrowflight "github.com/apache/arrow-go/v18/arrow/flight"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	"github.com/penstock/penstock/flight"
	"github.com/penstock/penstock/internal/fault"
)

// talker answers each action with the same messages.
type talker struct {
	arrowflight.BaseFlightServer

	message string
	times   int
}

func (t *talker) DoAction(_ *arrowflight.Action, to arrowflight.FlightService_DoActionServer) error {
	for range t.times {
		if err := to.Send(&arrowflight.Result{Body: []byte(t.message)}); err != nil {
			return err
		}
	}
	return nil
}

// statusOf returns the status that a client reads from a talker.
func statusOf(t *testing.T, from *talker) (flight.ServerStatus, error) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	server := grpc.NewServer()
	arrowflight.RegisterFlightServiceServer(server, from)
	go func() { _ = server.Serve(listener) }()
	defer server.Stop()
	c, err := Local(func(ctx context.Context) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", listener.Addr().String())
	}, 1<<20, func() error { return nil })
	require.NoError(t, err)
	status, _, err := c.Status(t.Context())
	require.NoError(t, c.Close())
	return status, err
}

// A few megabytes of a server could take gigabytes of a page that shows several servers.
func TestHugeAnswersAreRefused(t *testing.T) {
	t.Parallel()
	const most = 1 << 16
	entries := func(n int) string { return "[" + strings.Repeat("{},", n-1) + "{}]" }
	status, err := statusOf(t, &talker{message: `{"v": 1, "streams": ` + entries(most) + "}", times: 1})
	require.NoError(t, err)
	require.Len(t, status.Streams, most)
	for _, list := range []string{"streams", "planning"} {
		_, err = statusOf(t, &talker{message: `{"v": 1, "` + list + `": ` + entries(most+1) + "}", times: 1})
		require.Equal(t, fault.Internal, fault.KindOf(err))
		require.ErrorContains(t, err, "sent a status with 65537 entries")
	}
	_, err = statusOf(t, &talker{message: strings.Repeat(" ", 1<<19), times: 1 << 20})
	require.ErrorContains(t, err, "in answer to status")
}
