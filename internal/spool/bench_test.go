package spool

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// BenchmarkSpool writes and reads batches of a few hundred kilobytes.
func BenchmarkSpool(b *testing.B) {
	s, err := Open(Options{Folder: b.TempDir()})
	require.NoError(b, err)
	rows := random(1, 4096)
	f, err := s.Create("rows")
	require.NoError(b, err)
	_, err = f.Append(rows)
	require.NoError(b, err)
	size := f.Bytes()
	b.Run("append", func(b *testing.B) {
		b.SetBytes(size)
		to, err := s.Create("rows")
		require.NoError(b, err)
		defer to.Release()
		for range b.N {
			_, err := to.Append(rows)
			require.NoError(b, err)
		}
	})
	b.Run("read", func(b *testing.B) {
		b.SetBytes(size)
		for range b.N {
			got, err := f.Read(0)
			require.NoError(b, err)
			got.Release()
		}
	})
	f.Release()
}
