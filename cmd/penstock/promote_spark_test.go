package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// spec: promote-60, promote-62
func TestPromotionsArePrinted(t *testing.T) {
	l := readLake(t)
	before := must(os.ReadFile(filepath.Join(l.dir, "catalog.db")))
	found := run(t, "promote", "home", "history", "--config", l.config, "--print", "spark", "--spark-catalog", "lake")
	require.Equal(t, exitOK, found.code, found.stderr)
	require.Contains(t, found.stdout, "\nINSERT OVERWRITE `lake`.`ml`.")
	require.Contains(t, found.stdout, " AS `last`")
	require.Equal(t, before, must(os.ReadFile(filepath.Join(l.dir, "catalog.db"))))
	for text, args := range map[string][]string{
		"--print yaml: want spark":            {"--print", "yaml"},
		"--spark-catalog needs --print spark": {"--spark-catalog", "lake"},
	} {
		refused := run(t, append([]string{"promote", "home", "history", "--config", l.config}, args...)...)
		require.Equal(t, exitUsage, refused.code)
		require.Contains(t, refused.stderr, text)
	}
	unknown := run(t, "promote", "home", "histori", "--config", l.config, "--print", "spark")
	require.Contains(t, unknown.stderr, "no staging entry histori")
}
