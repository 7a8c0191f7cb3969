package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The unit of systemd starts the program with flags that it has, and is verified where systemd is installed.
func TestServiceStartsTheProgram(t *testing.T) {
	program := programOf(t)
	text, err := os.ReadFile("../../deploy/penstock.service")
	require.NoError(t, err)
	start := regexp.MustCompile(`(?m)^ExecStart=/usr/local/bin/penstock (.*)$`).FindStringSubmatch(string(text))
	require.Len(t, start, 2)
	said, err := exec.CommandContext(t.Context(), program, append(strings.Fields(start[1]), "--help")...).CombinedOutput()
	require.NoError(t, err, string(said))
	for _, line := range []string{"User=penstock", "ProtectSystem=strict", "NoNewPrivileges=yes", "CapabilityBoundingSet=", "StateDirectory=penstock"} {
		require.Contains(t, string(text), "\n"+line+"\n")
	}
	verify, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Log("there is no systemd-analyze: systemd has not verified the unit")
		return
	}
	unit := filepath.Join(t.TempDir(), "penstock.service")
	require.NoError(t, os.WriteFile(unit, []byte(strings.ReplaceAll(string(text), "/usr/local/bin/penstock", program)), 0o600))
	said, err = exec.CommandContext(t.Context(), verify, "verify", unit).CombinedOutput()
	require.NoError(t, err, string(said))
	require.NotContains(t, string(said), unit)
}
