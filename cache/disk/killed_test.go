package disk

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/stretchr/testify/require"
)

// killedFolder is the environment variable that makes this test's program write to a folder until it is
// killed.
const killedFolder = "PENSTOCK_TEST_KILLED_FOLDER"

const killedLimit = 4 << 20

// killedChunk is the chunk that the killed process writes under a number.
func killedChunk(n int) []arrow.Array {
	return []arrow.Array{numbers(n, 30_000+n%7), numbers(-n, 1_000)}
}

// writeUntilKilled writes chunks as fast as it can.
func writeUntilKilled(folder string) {
	tier, err := Open(context.Background(), Options{Folder: folder, Limit: killedLimit})
	if err != nil {
		panic(err)
	}
	for n := 0; ; n++ {
		done := make(chan struct{})
		tier.Put(Offer{ID: numbered(n), Arrays: killedChunk(n), Cost: 1, Done: func() { close(done) }})
		<-done
	}
}

// TestKilledWritersLeaveOnlyWholeChunks kills a process while it writes, several times. The next one finds
// intact chunks alone, below the limit, and no other files.
//
// spec: disk-3
func TestKilledWritersLeaveOnlyWholeChunks(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(t.TempDir(), "cache")
	for round := range 4 {
		writer := exec.Command(os.Args[0], "-test.run", "^$")
		writer.Env = append(os.Environ(), killedFolder+"="+folder)
		require.NoError(t, writer.Start())
		waitForFiles(t, folder, 3+round)
		require.NoError(t, writer.Process.Kill())
		require.Error(t, writer.Wait())
		require.LessOrEqual(t, folderBytes(t, folder), int64(killedLimit))

		r := newRig(t, func(o *Options) { o.Folder, o.Limit = folder, killedLimit })
		names, err := os.ReadDir(folder)
		require.NoError(t, err)
		for _, e := range names {
			require.False(t, strings.HasSuffix(e.Name(), tempSuffix))
		}
		chunks, err := list(folder)
		require.NoError(t, err)
		require.Len(t, chunks, len(names)-1, "all files but the lock")
		for _, c := range chunks {
			var n int
			_, err := fmt.Sscanf(c.ID.File, "data/part-%d.parquet", &n)
			require.NoError(t, err)
			r.requireGet(numbered(n), killedChunk(n)...)
		}
		r.tier.Close(t.Context())
	}
}

// waitForFiles waits until a folder has some complete chunks.
func waitForFiles(t *testing.T, folder string, n int) {
	t.Helper()
	require.Eventually(t, func() bool {
		found, err := filepath.Glob(filepath.Join(folder, "*"+chunkSuffix))
		return err == nil && len(found) >= n
	}, time.Minute, time.Millisecond)
}

// folderBytes returns what the files of a folder count, as the file system reports them.
func folderBytes(t *testing.T, folder string) (sum int64) {
	t.Helper()
	entries, err := os.ReadDir(folder)
	require.NoError(t, err)
	for _, e := range entries {
		found, err := e.Info()
		if err == nil && e.Name() != lockName {
			sum += (found.Size() + diskBlock - 1) / diskBlock * diskBlock
		}
	}
	return sum
}
