package main

import (
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// maxStartAllocations is the maximum number of objects that one package allocates when the program
// starts. Among the packages, iceberg-go's Avro schemas allocate most, about 11,000 objects.
const maxStartAllocations = 20_000

// No package delays each command by a long initialization. iceberg-go allocated 534,000 objects,
// which took 0.1 seconds, before go.mod replaced the definitions of functions that it parses.
func TestPackagesInitializeFast(t *testing.T) {
	t.Parallel()
	program, err := os.Executable()
	require.NoError(t, err)
	c := exec.CommandContext(t.Context(), program, "version")
	c.Env = append(os.Environ(), asMain+"=1", "GODEBUG=inittrace=1")
	text, err := c.CombinedOutput()
	require.NoError(t, err, string(text))
	found := regexp.MustCompile(`(?m)^init (\S+) .* (\d+) allocs$`).FindAllSubmatch(text, -1)
	require.Greater(t, len(found), 10, string(text))
	for _, init := range found {
		n, err := strconv.Atoi(string(init[2]))
		require.NoError(t, err)
		require.Less(t, n, maxStartAllocations, "objects that package %s allocates", init[1])
	}
}
