package ui_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/cmd/penstock/ui"
	"github.com/penstock/penstock/flight"
)

// dialed is a server at an address.
type dialed struct {
	*server
	closed *[]string
	at     string
}

func (d dialed) Close() error {
	*d.closed = append(*d.closed, d.at)
	return nil
}

// All addresses of a name are asked. They are looked up again after 30 seconds, and those of before stay if this fails.
//
// spec: ui-37
func TestReplicasBehindAName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var addresses, closed []string
		var failure error
		lookups := 0
		several := &ui.Resolved{
			Name: "grpc://headless:8815",
			Lookup: func(context.Context) ([]string, error) {
				lookups++
				return addresses, failure
			},
			Dial: func(address string) (ui.Dialed, error) {
				s := &server{status: flight.ServerStatus{All: true, Streams: []flight.StreamStatus{stream(address, "job-of-"+address)}}}
				return dialed{s, &closed, address}, nil
			},
		}
		pages, err := ui.New(ui.Options{Read: &server{}, Resolved: []*ui.Resolved{several}})
		require.NoError(t, err)
		has := func(in, out []string) {
			t.Helper()
			_, body := get(t, pages, "/")
			for _, address := range in {
				require.Contains(t, body, "grpc://headless:8815 at "+address)
				require.Contains(t, body, "job-of-"+address)
			}
			for _, address := range out {
				require.NotContains(t, body, address)
			}
		}
		failure = errors.New("no such host")
		_, body := get(t, pages, "/")
		require.Contains(t, body, "no such host")

		addresses, failure = []string{"10.0.0.2", "10.0.0.1"}, nil
		has([]string{"10.0.0.1", "10.0.0.2"}, nil)
		addresses = []string{"10.0.0.2", "10.0.0.3"}
		has([]string{"10.0.0.1", "10.0.0.2"}, []string{"10.0.0.3"})
		require.Equal(t, 2, lookups)
		<-time.After(30 * time.Second)
		has([]string{"10.0.0.2", "10.0.0.3"}, []string{"10.0.0.1"})
		require.Equal(t, []string{"10.0.0.1"}, closed)
		failure = errors.New("no answer")
		<-time.After(30 * time.Second)
		has([]string{"10.0.0.2", "10.0.0.3"}, nil)
		require.NoError(t, several.Close())
		require.ElementsMatch(t, []string{"10.0.0.1", "10.0.0.2", "10.0.0.3"}, closed)
	})
}
