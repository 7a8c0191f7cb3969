package flight

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/penstock/penstock/flight/admission"
)

// spec: wire-43
func TestMixHeadersAreChecked(t *testing.T) {
	s := serve(t, Options{Loader: newWorld(t).loader()})
	ticket := s.ticket(t, `{"dataset": "homefeed"}`)
	for _, values := range [][]string{
		{""},
		{"m"},
		{"m "},
		{" 2"},
		{"m two"},
		{"m 0"},
		{"m -1"},
		{"m 65"},
		{"m 99999999999999999999"},
		{"m 2 3"},
		{strings.Repeat("m", 65) + " 2"},
		{"m 2", "n 2"},
	} {
		ctx := metadata.NewOutgoingContext(t.Context(), metadata.MD{admission.HeaderMix: values})
		stream, err := s.DoGet(ctx, ticket)
		require.NoError(t, err)
		_, err = stream.Recv()
		require.Equal(t, codes.InvalidArgument, status.Code(err), "%q", values)
		require.ErrorContains(t, err, admission.HeaderMix)
	}
	for _, value := range []string{"m 1", "m 64", strings.Repeat("m", 64) + " 2"} {
		stream, err := s.DoGet(metadata.AppendToOutgoingContext(t.Context(), admission.HeaderMix, value), ticket)
		require.NoError(t, err)
		_, err = stream.Recv()
		require.NoError(t, err)
		for err == nil {
			_, err = stream.Recv()
		}
		<-s.ended
	}
}

// A server with two slots admits both streams of one rank, although the other rank's first stream
// comes before its second one.
//
// spec: wire-42
func TestServerAdmitsAMixTogether(t *testing.T) {
	w := newWorld(t)
	turn := make(chan struct{})
	s := serve(t, Options{MaxStreams: 2, PeerShare: 100, Loader: opens(w.loader(), func(ctx context.Context) *canned {
		return endless(ctx, w.budget, 1, turn)
	})})
	ticket := s.ticket(t, `{"dataset": "homefeed"}`)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	open := func(mix string) error {
		stream, err := s.DoGet(metadata.AppendToOutgoingContext(ctx, admission.HeaderMix, mix+" 2"), ticket)
		require.NoError(t, err)
		_, err = stream.Recv() // the schema, once it is admitted
		return err
	}
	require.NoError(t, open("first"))
	waits := make(chan error, 1)
	go func() { waits <- open("second") }()
	require.Eventually(t, func() bool { return s.server.Waiting() == 1 }, 10*time.Second, time.Millisecond)
	require.NoError(t, open("first"))
	require.Equal(t, 1, s.server.Waiting())
	cancel()
	require.Error(t, <-waits)
	for range 2 {
		<-s.ended
	}
}
