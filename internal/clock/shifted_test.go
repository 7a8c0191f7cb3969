//go:build shiftclock

package clock

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestShiftedClockKeepsDurations(t *testing.T) {
	t.Parallel()
	now := time.Now()
	for _, by := range []time.Duration{time.Hour, -10 * time.Minute, 0} {
		then := moved(now, int64(by/time.Second))
		require.Equal(t, now.Round(0).Add(by), then.Round(0), "the wall clock is set")
		require.Zero(t, then.Sub(now), "the monotonic clock is not")
	}
}
