// Package jwks fetches the keys of a token issuer.
//
// The keys are fetched when the server starts, then every five minutes, and when a token names an
// unknown key. Between two fetches, there are at least ten seconds. If a fetch fails, the previous
// keys stay in use, until package issuer refuses them because of their age.
package jwks

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"sync/atomic"
	"time"

	"github.com/penstock/penstock/internal/backoff"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/hostport"
)

const (
	every    = 5 * time.Minute
	pause    = 10 * time.Second // minimum time between two fetches
	timeout  = 10 * time.Second // of one fetch
	maxBytes = 1 << 20          // maximum size of the keys
)

// Remote is the keys at a URL.
type Remote struct {
	url    string
	set    Setter
	clock  func() time.Time
	log    *slog.Logger
	client *http.Client
	wanted chan struct{}
	pause  time.Duration // the value of the constant pause, except in tests
	last   atomic.Int64  // when the last successful fetch started, in nanoseconds since 1970
}

// Setter is a function that accepts new keys, and the time when the fetch of these keys started.
type Setter func(text []byte, asOf time.Time) error

// New returns a Remote that passes the keys at a URL to set. The URL must be https, or http on the
// loopback, because the keys decide which tokens are accepted.
func New(at string, set Setter, clock func() time.Time, log *slog.Logger) (*Remote, error) {
	parsed, err := url.Parse(at)
	if err != nil || parsed.Host == "" || parsed.Scheme != "https" && (parsed.Scheme != "http" || !hostport.IsLoopback(parsed.Hostname())) {
		return nil, fault.InvalidField("jwt_keys", "%q is neither a file nor an https URL", fault.RedactURI(at))
	}
	client := &http.Client{
		Timeout: timeout,
		// Redirects are not followed, because a redirect could lead to a host that the operator did
		// not choose.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return &Remote{url: at, set: set, clock: clock, log: log, client: client, wanted: make(chan struct{}, 1), pause: pause}, nil
}

// Want asks Run to refresh the keys. It does not block.
func (k *Remote) Want() {
	select {
	case k.wanted <- struct{}{}:
	default: // a fetch is already pending
	}
}

// Run fetches the keys at intervals and after calls of Want, until ctx ends.
func (k *Remote) Run(ctx context.Context) {
	regular := time.NewTicker(every)
	defer regular.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-regular.C:
		case <-k.wanted:
		}
		if err := k.Fetch(ctx); err != nil && ctx.Err() == nil {
			k.log.Warn("the keys of the issuer cannot be fetched: the previous ones stay in use until they are too old",
				"url", fault.RedactURI(k.url), "fetched", k.Fetched(), "error", err)
		}
		if backoff.Sleep(ctx, k.pause) != nil {
			return
		}
	}
}

// Fetch fetches the keys once.
func (k *Remote) Fetch(ctx context.Context) error {
	asOf := k.clock()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, k.url, http.NoBody)
	if err != nil {
		return k.failed(err)
	}
	answer, err := k.client.Do(request)
	if err != nil {
		return k.failed(err)
	}
	defer answer.Body.Close() //nolint:errcheck // it was only read
	if answer.StatusCode != http.StatusOK {
		return fault.New(fault.Unavailable, "fetch the keys of the issuer from %s: %s", fault.RedactURI(k.url), answer.Status).WithRemedy("check jwt_keys")
	}
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxBytes+1))
	switch {
	case err != nil:
		return k.failed(err)
	case len(text) > maxBytes:
		return fault.New(fault.Invalid, "the keys of the issuer at %s have more than %d bytes", fault.RedactURI(k.url), maxBytes)
	}
	if err := k.set(text, asOf); err != nil {
		return err
	}
	k.last.Store(asOf.UnixNano())
	return nil
}

// Fetched returns when the last successful fetch started.
func (k *Remote) Fetched() time.Time { return time.Unix(0, k.last.Load()) }

func (k *Remote) failed(err error) error {
	return fault.New(fault.Unavailable, "fetch the keys of the issuer: %w", err).WithRemedy("check jwt_keys, and whether the issuer can be reached")
}
