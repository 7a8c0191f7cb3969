package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A server does not start if it cannot write to its spool. Commands that read in process do not
// check it, because they may never need it.
func TestSpoolIsCheckedAtStart(t *testing.T) {
	l := readLake(t)
	const place = "/proc" // not even root can create a file there
	got := run(t, "serve", "--config", l.config, "--listen", "127.0.0.1:0", "--spool", place)
	require.Equal(t, exitFailure, got.code)
	require.Empty(t, got.stdout)
	require.Contains(t, got.stderr, "try the spool: create a file in /proc")
	require.Contains(t, got.stderr, "the setting spool")
	p := process{environment: environment{env: func(name string) (string, bool) { return place, name == "PENSTOCK_SPOOL" }}}
	require.Zero(t, runWith(t, p, "cat", "home", "--config", l.config).code)
}
