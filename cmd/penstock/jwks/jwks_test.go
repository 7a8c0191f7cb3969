package jwks

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/penstock/penstock/internal/fault"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// spec: access-10
func TestKeysAreFetchedWhenTheyAreWanted(t *testing.T) {
	var body atomic.Value
	body.Store("first")
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(body.Load().(string))) }))
	defer server.Close()
	got := make(chan string, 4)
	var log bytes.Buffer
	now := time.Date(2026, 10, 1, 12, 0, 0, 0, time.UTC)
	k, err := New(server.URL, func(text []byte, asOf time.Time) error {
		assert.Equal(t, now, asOf)
		if string(text) == "broken" {
			got <- "refused"
			return errors.New("no key")
		}
		got <- string(text)
		return nil
	}, func() time.Time { return now }, slog.New(slog.NewTextHandler(&log, nil)))
	require.NoError(t, err)
	k.pause = 0
	require.NoError(t, k.Fetch(t.Context()))
	require.Equal(t, "first", <-got)

	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); k.Run(ctx) }()
	for _, text := range []string{"second", "broken"} {
		body.Store(text)
		k.Want()
		if text == "broken" {
			text = "refused"
		}
		require.Equal(t, text, <-got)
	}
	k.Want()
	require.Equal(t, "refused", <-got)
	cancel()
	<-ended
	require.Contains(t, log.String(), "no key")
	k.client.CloseIdleConnections()
}

func TestAnswersThatAreNotKeysFail(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/moved":
			http.Redirect(w, r, "/", http.StatusFound)
		case "/large":
			_, _ = w.Write(make([]byte, maxBytes+1))
		case "/none":
			http.NotFound(w, r)
		}
	}))
	for path, kind := range map[string]fault.Kind{"/moved": fault.Unavailable, "/large": fault.Invalid, "/none": fault.Unavailable} {
		k, err := New(server.URL+path, func([]byte, time.Time) error { return nil }, time.Now, slog.New(slog.DiscardHandler))
		require.NoError(t, err)
		require.Equal(t, kind, fault.KindOf(k.Fetch(t.Context())), path)
		k.client.CloseIdleConnections()
	}
	k, err := New(server.URL, nil, time.Now, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	server.Close()
	require.Equal(t, fault.Unavailable, fault.KindOf(k.Fetch(t.Context())))
}

func TestKeysComeFromSafeURLs(t *testing.T) {
	for url, safe := range map[string]bool{
		"https://issuer.example.com/keys": true, "http://127.0.0.1:1/keys": true, "http://localhost/keys": true, "http://[::1]/keys": true,
		"http://issuer.example.com/keys": false, "ftp://127.0.0.1/keys": false, "https://": false, "https://%": false, "file:///keys": false,
	} {
		_, err := New(url, nil, nil, nil)
		require.Equal(t, safe, err == nil, url)
	}
}
