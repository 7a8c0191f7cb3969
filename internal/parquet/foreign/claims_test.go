package foreign_test

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/parquet/foreign"
)

// TestClaimedFooters opens a file of some bytes whose footer claims a list of millions of columns: it is
// refused before memory is taken for them.
//
// It runs alone, since it counts what the process allocates.
func TestClaimedFooters(t *testing.T) {
	footer := binary.AppendUvarint([]byte{0x15, 0x04, 0x19, 0xfc}, 90_000_000) // a version, and a list of structs
	content := append([]byte("PAR1"), footer...)
	content = append(binary.LittleEndian.AppendUint32(content, uint32(len(footer))), "PAR1"...)
	path := filepath.Join(t.TempDir(), "claims.parquet")
	require.NoError(t, os.WriteFile(path, content, 0o600))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := foreign.Open(t.Context(), []string{path}, foreign.Options{})
	runtime.ReadMemStats(&after)
	require.Equal(t, fault.Invalid, fault.KindOf(err), "%v", err)
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(1<<20))
}
