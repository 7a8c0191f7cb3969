package store_test

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/store"
)

// BenchmarkReadAt reads from the page cache, as it is and under a Bounded.
func BenchmarkReadAt(b *testing.B) {
	const size = 1 << 20
	path := filepath.Join(b.TempDir(), "file")
	require.NoError(b, os.WriteFile(path, make([]byte, size), 0o600))
	for name, s := range map[string]store.Store{
		"local":   store.Local{},
		"bounded": store.NewBounded(store.Local{}, store.NewCalls(store.Options{Timeout: time.Minute})),
	} {
		for _, n := range []int{4 << 10, size} {
			b.Run(name+"/"+strconv.Itoa(n>>10)+"KiB", func(b *testing.B) {
				ctx, cancel := context.WithCancel(b.Context())
				defer cancel()
				o, err := s.Open(ctx, path, size)
				require.NoError(b, err)
				p := make([]byte, n)
				b.SetBytes(int64(n))
				for b.Loop() {
					if err := o.ReadAt(ctx, memory.NewBufferBytes(p), 0); err != nil {
						b.Fatal(err)
					}
				}
				require.NoError(b, o.Close())
			})
		}
	}
}

// BenchmarkOpen opens and closes a file that the kernel knows.
func BenchmarkOpen(b *testing.B) {
	path := filepath.Join(b.TempDir(), "file")
	require.NoError(b, os.WriteFile(path, nil, 0o600))
	for name, s := range map[string]store.Store{
		"local":   store.Local{},
		"bounded": store.NewBounded(store.Local{}, store.NewCalls(store.Options{Timeout: time.Minute})),
	} {
		b.Run(name, func(b *testing.B) {
			ctx, cancel := context.WithCancel(b.Context())
			defer cancel()
			for b.Loop() {
				o, err := s.Open(ctx, path, 0)
				if err == nil {
					err = o.Close()
				}
				if err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
