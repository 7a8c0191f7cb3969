package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestMutantsAreNotStale finds the text of every mutant, so that a change of
// the code that it aims at shows before `make mutants` is run again.
func TestMutantsAreNotStale(t *testing.T) {
	t.Parallel()
	names := map[string]bool{}
	for _, m := range mutants() {
		require.False(t, names[m.name], "two mutants are called %s", m.name)
		names[m.name] = true
		source, err := os.ReadFile(filepath.Join("..", "..", m.file))
		require.NoError(t, err, m.name)
		require.Equal(t, 1, bytes.Count(source, []byte(m.old)), "%s: how often its text is found in %s", m.name, m.file)
		require.NotEqual(t, m.old, m.new, m.name)
		require.NotEmpty(t, m.tests, m.name)
	}
}
