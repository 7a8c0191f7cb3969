package client

import (
	"context"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/fault"
)

// A connection whose other end is gone need not be closed: a network may drop all that is sent. A command must not wait for
// an answer forever then.
func TestCallEndsIfTheConnectionFallsSilent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, err := Local(func(context.Context) (net.Conn, error) {
			near, far := net.Pipe()
			go func() {
				_, _ = io.Copy(io.Discard, far)
			}()
			go func() {
				_, _ = far.Write([]byte{0, 0, 0, 4, 0, 0, 0, 0, 0}) // the settings of HTTP/2, and nothing after them
			}()
			return near, nil
		}, 1<<20, func() error { return nil })
		require.NoError(t, err)
		began := time.Now()
		_, err = c.Datasets(t.Context())
		require.Equal(t, fault.Unavailable, fault.KindOf(err), "%v", err)
		require.Equal(t, pingAfter+pingTimeout, time.Since(began))
		require.NoError(t, c.Close())
	})
}
