package outfile

import (
	"io"
	"io/fs"
	"path/filepath"
	"strings"
	"syscall"
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

// A full disk is not a matter of the file's name.
func TestFullDisksAreNamed(t *testing.T) {
	for _, why := range []error{syscall.ENOSPC, syscall.EDQUOT} {
		err := unwritten("rows.parquet", &fs.PathError{Op: "write", Path: ".rows.part", Err: why})
		require.Equal(t, fault.Unavailable, fault.KindOf(err))
		require.Contains(t, fault.As(err).Remedy, "is full")
	}
	require.NotContains(t, fault.As(unwritten("rows.parquet", syscall.EACCES)).Remedy, "full")
}
