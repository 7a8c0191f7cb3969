package outfile

import (
	"io"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/fault"
)

// Errors name the path of the user, and not the temporary file.
func TestErrorsNameThePath(t *testing.T) {
	const longest = 255
	dir := t.TempDir()
	path := filepath.Join(dir, strings.Repeat("n", longest))
	err := Write(path, func(w io.Writer) error {
		to, ok := w.(besideWriter)
		require.True(t, ok)
		require.NoError(t, to.file.Close())
		_, err := io.WriteString(w, "half")
		return err
	})
	require.ErrorContains(t, err, "write "+path+": file already closed")
	require.Equal(t, fault.Unavailable, fault.KindOf(err))
	err = Write(filepath.Join(dir, strings.Repeat("n", longest+1)), func(io.Writer) error { return nil })
	require.ErrorContains(t, err, "name too long")
	require.NotContains(t, err.Error(), ".part")
}
