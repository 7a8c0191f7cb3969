package slowness_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/flight/slowness"
	"github.com/penstock/penstock/internal/waits"
)

// TestLimits has a stream for each cause, and the figures that lead to it.
//
// spec: status-17
func TestLimits(t *testing.T) {
	t.Parallel()
	const s = time.Second
	spent := func(c waits.Cause, change func(*slowness.Spent)) slowness.Spent {
		out := slowness.Spent{Open: 10 * s, Cores: 2}
		out.Times[c] = 5 * s
		out.Times[waits.Join] += s
		if change != nil {
			change(&out)
		}
		return out
	}
	reads := func(r waits.Reads) func(*slowness.Spent) { return func(s *slowness.Spent) { s.Reads = r } }
	tests := map[slowness.Cause]struct {
		of  slowness.Spent
		why string
	}{
		slowness.Trainer:  {of: spent(waits.Trainer, func(x *slowness.Spent) { x.Times[waits.Network] = s })},
		slowness.Network:  {of: spent(waits.Trainer, func(x *slowness.Spent) { x.Times[waits.Network] = 4 * s })},
		slowness.Slot:     {of: spent(waits.Slot, nil)},
		slowness.Memory:   {of: spent(waits.Memory, nil)},
		slowness.InFlight: {of: spent(waits.Memory, func(x *slowness.Spent) { x.InFlight = true })},
		slowness.Stream:   {of: spent(waits.Stream, nil)},
		slowness.Deletes:  {of: spent(waits.Deletes, nil)},
		slowness.StorageErrors: {
			of:  spent(waits.Storage, reads(waits.Reads{Requests: 10, Failed: 1, Bytes: 10 << 20, Took: s, First: s})),
			why: "1 of 10 requests failed",
		},
		slowness.StorageLatency: {
			of:  spent(waits.Storage, reads(waits.Reads{Requests: 10, Bytes: 1 << 20, Took: 5 * s, First: 4 * s})),
			why: "10 requests waited 400ms each for the first byte, and read 102 KiB each: larger files need fewer requests",
		},
		slowness.StorageBandwidth: {
			of:  spent(waits.Storage, reads(waits.Reads{Requests: 10, Bytes: 10 << 20, Took: 5 * s})),
			why: "10.0 MiB came at 2.0 MiB/s for each request",
		},
		slowness.SmallReads: {
			of:  spent(waits.Storage, reads(waits.Reads{Requests: 1000, Bytes: 1000 << 10, Took: 20 * s, First: 20 * s, Sought: 8, Found: 3})),
			why: "1000 requests read 1.0 KiB each",
		},
		slowness.Plan:    {of: spent(waits.Plan, nil)},
		slowness.Spill:   {of: spent(waits.Spill, nil)},
		slowness.Build:   {of: spent(waits.Build, nil)},
		slowness.Compute: {of: spent(waits.Compute, func(x *slowness.Spent) { x.Beside = 14 * s })},
		slowness.Join:    {of: spent(waits.Join, nil)},
		slowness.Send:    {of: spent(waits.Send, nil)},
		slowness.Decode: {
			of:  spent(waits.Decode, func(x *slowness.Spent) { x.Cached, x.Reads = true, waits.Reads{Sought: 8, Found: 3} }),
			why: "the cache had 3 of 8 columns and fills",
		},
		slowness.Cores: {
			of: spent(waits.Decode, func(x *slowness.Spent) {
				x.Beside, x.Cached, x.CacheFull, x.Reads = 16*s, true, true, waits.Reads{Sought: 8, Found: 3}
			}),
			why: "1.6 other streams work at the same time, on 2 cores; the cache had 3 of 8 columns and is full",
		},
	}
	for _, cause := range slowness.Causes() {
		require.Contains(t, tests, cause)
		got := slowness.Of(tests[cause].of)
		require.NotNil(t, got, cause)
		require.Equal(t, cause, got.Cause)
		require.Equal(t, tests[cause].why, got.Why, cause)
		require.Equal(t, cause.Remedy(), got.Remedy)
		require.NotEmpty(t, got.Remedy)
		require.NotEmpty(t, cause.Meaning())
	}
	require.InDelta(t, 0.9, slowness.Of(tests[slowness.Network].of).Share, 1e-9)
	require.Empty(t, slowness.Cause("new").Meaning()+slowness.Cause("new").Remedy())
}

// TestNothingLimits has streams of which nothing is known, or that only wait a little.
func TestNothingLimits(t *testing.T) {
	t.Parallel()
	require.Nil(t, slowness.Of(slowness.Spent{}))
	some := slowness.Spent{Open: 10 * time.Second}
	some.Times[waits.Storage] = 900 * time.Millisecond
	require.Nil(t, slowness.Of(some))
}
