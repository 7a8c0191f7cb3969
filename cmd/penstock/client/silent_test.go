package client

import (
	"context"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/flight/silence"
	"github.com/penstock/penstock/internal/fault"
)

// A connection whose other end is gone need not be closed: a network may drop all that is sent, and the system accepts
// connections for a server that is suspended. A command must not wait for an answer forever then.
//
// spec: replicas-8
func TestCallsEndIfTheServerIsSilent(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		sent []byte
		want time.Duration
	}{
		"before the connection is ready": {nil, silence.ConnectLimit},
		"after it":                       {[]byte{0, 0, 0, 4, 0, 0, 0, 0, 0}, silence.Limit}, // the settings of HTTP/2
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				c, err := Local(func(context.Context) (net.Conn, error) {
					near, far := net.Pipe()
					go func() {
						_, _ = io.Copy(io.Discard, far)
					}()
					go func() {
						_, _ = far.Write(tc.sent)
					}()
					return near, nil
				}, 1<<20, func() error { return nil })
				require.NoError(t, err)
				began := time.Now()
				_, err = c.Datasets(t.Context())
				require.Equal(t, fault.Unavailable, fault.KindOf(err), "%v", err)
				require.Equal(t, tc.want, time.Since(began))
				require.NoError(t, c.Close())
			})
		})
	}
}
