package ui_test

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/cmd/penstock/client"
	"github.com/penstock/penstock/cmd/penstock/ui"
	"github.com/penstock/penstock/cmd/penstock/webserver"
)

// slowLake is a lake that checks limits for a long time before it publishes.
type slowLake struct {
	*changingLake
	takes time.Duration
	ended error // of the last check that was ended
}

func (l *slowLake) Publish(ctx context.Context, move client.Move) (client.Move, error) {
	select {
	case <-time.After(l.takes):
		return l.changingLake.Publish(ctx, move)
	case <-ctx.Done():
		l.ended = ctx.Err()
		return client.Move{}, ctx.Err()
	}
}

// dial connects to a listener.
func (p *pipes) dial(context.Context, string, string) (net.Conn, error) {
	near, far := net.Pipe()
	p.conns <- far
	return near, nil
}

// A change may take longer than other requests, ends after its own time, and ends if the browser goes.
//
// spec: ui-22
func TestChangesMayTakeLong(t *testing.T) {
	for name, c := range map[string]struct {
		takes, patience time.Duration // of the server and of the browser
		status          int           // 0: the browser has gone
	}{
		"minutes":                {10 * time.Minute, time.Hour, http.StatusSeeOther},
		"too long":               {time.Hour, 2 * time.Hour, http.StatusGatewayTimeout},
		"a browser that is gone": {10 * time.Minute, time.Minute, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				of := &slowLake{newChangingLake(), c.takes, nil}
				pages, err := ui.New(ui.Options{Read: of, Change: of, Session: func(*http.Request) string { return "one" }})
				require.NoError(t, err)
				_, page := get(t, pages, "/publish/features.a?branch=ready")
				action, fields := formOf(t, page)
				at := &pipes{conns: make(chan net.Conn, 1), closed: make(chan struct{})}
				server := webserver.New(pages, 10, slog.New(slog.DiscardHandler))
				go func() { _ = server.Serve(at) }()
				status := post(t, at, action, fields, c.patience)
				require.Equal(t, c.status, status)
				synctest.Wait()
				require.Equal(t, c.status == http.StatusSeeOther, len(of.made) == 1)
				require.Equal(t, c.status != http.StatusSeeOther, of.ended != nil)
				require.NoError(t, server.Close())
			})
		})
	}
}

// post sends a form, and returns the status of the answer; 0 if the browser's patience ends before.
func post(t *testing.T, to *pipes, action string, fields url.Values, patience time.Duration) int {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://127.0.0.1:8880"+action, strings.NewReader(fields.Encode()))
	require.NoError(t, err)
	r.Header.Set("Origin", "http://127.0.0.1:8880")
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	transport := &http.Transport{DialContext: to.dial}
	defer transport.CloseIdleConnections()
	answer, err := transport.RoundTrip(r)
	if err != nil {
		require.ErrorIs(t, err, context.DeadlineExceeded)
		return 0
	}
	require.NoError(t, answer.Body.Close())
	return answer.StatusCode
}
