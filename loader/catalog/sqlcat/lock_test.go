package sqlcat

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The wait for a lock ends before the storage timeout, so that a lock is reported as a lock,
// however long a call has waited for others.
func TestLockTimeout(t *testing.T) {
	for _, c := range []struct{ limit, waited, want time.Duration }{
		{0, 0, 5 * time.Second},
		{time.Minute, 0, 5 * time.Second},
		{time.Minute, 2 * time.Second, 3 * time.Second},
		{time.Minute, 20 * time.Second, 50 * time.Millisecond},
		{4 * time.Second, 0, 2 * time.Second},
		{4 * time.Second, time.Second, time.Second},
		{time.Millisecond, 0, 50 * time.Millisecond},
	} {
		require.Equal(t, c.want, lockTimeout(c.limit, c.waited), "%v", c)
	}
}
