package s3_test

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/penstock/penstock/internal/store/s3"
	"github.com/penstock/penstock/internal/store/s3/gatewaytest"
	"github.com/penstock/penstock/internal/store/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// lake is a bucket of its own behind a gateway and a proxy.
type lake struct {
	*gatewaytest.Gateway
	proxy *gatewaytest.Proxy
}

const bucket = "lake"

func newLake(t *testing.T) *lake {
	t.Helper()
	g, err := gatewaytest.Start(t.Context(), t.TempDir())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, g.Close()) })
	require.NoError(t, g.MakeBucket(t.Context(), bucket))
	p, err := gatewaytest.NewProxy(g.URL)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	return &lake{g, p}
}

// open makes a store that reads through the proxy.
func (l *lake) open(t *testing.T, change func(*s3.Options)) *s3.Store {
	t.Helper()
	o := s3.Options{Settings: s3.Settings{Endpoint: l.proxy.URL, PathStyle: true, AccessKeyID: gatewaytest.Access, SecretAccessKey: gatewaytest.Secret}}
	if change != nil {
		change(&o)
	}
	s, err := s3.New(t.Context(), o)
	require.NoError(t, err)
	t.Cleanup(s.Close)
	return s
}

func (l *lake) put(t *testing.T, key string, content []byte) string {
	t.Helper()
	require.NoError(t, l.Put(t.Context(), bucket, key, content))
	return "s3://" + bucket + "/" + key
}

func TestConforms(t *testing.T) {
	l := newLake(t)
	var number atomic.Int64
	storetest.Run(t, func(t *testing.T) storetest.Fixture {
		folder := fmt.Sprintf("%d/", number.Add(1))
		return storetest.Fixture{
			Store:  l.open(t, nil),
			Put:    func(t *testing.T, name string, content []byte) string { return l.put(t, folder+name, content) },
			Absent: func(_ *testing.T, name string) string { return "s3://" + bucket + "/" + folder + name },
		}
	})
}
