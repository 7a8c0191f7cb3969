package store_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/store"
	"github.com/penstock/penstock/internal/store/s3"
	"github.com/penstock/penstock/internal/store/storetest"
)

func TestLocalConforms(t *testing.T) {
	for form, prefix := range map[string]string{"plain": "", "one slash": "file:", "three slashes": "file://"} {
		t.Run(form, func(t *testing.T) {
			storetest.Run(t, func(t *testing.T) storetest.Fixture {
				dir := t.TempDir()
				locate := func(_ *testing.T, name string) string { return prefix + filepath.Join(dir, name) }
				return storetest.Fixture{
					Store:  store.Local{},
					Absent: locate,
					Put: func(t *testing.T, name string, content []byte) string {
						require.NoError(t, os.WriteFile(filepath.Join(dir, name), content, 0o600))
						return locate(t, name)
					},
				}
			})
		})
	}
}

func TestMemoryConforms(t *testing.T) {
	storetest.Run(t, func(*testing.T) storetest.Fixture {
		m := storetest.NewMemory()
		locate := func(_ *testing.T, name string) string { return "file:///memory/" + name }
		return storetest.Fixture{
			Store:  m,
			Absent: locate,
			Put: func(t *testing.T, name string, content []byte) string {
				m.Put(locate(t, name), content)
				return locate(t, name)
			},
		}
	})
}

func TestPath(t *testing.T) {
	for location, want := range map[string]string{
		"/a/b.parquet":                "/a/b.parquet",
		"file:/a/b.parquet":           "/a/b.parquet",
		"file:///a/b.parquet":         "/a/b.parquet",
		"FILE:///a/b.parquet":         "/a/b.parquet",
		"file://localhost/a/b":        "/a/b",
		"file:///w/s=a%2Fb/c?d#e":     "/w/s=a%2Fb/c?d#e",
		"/w/ts=2024-01-01T00:00:00/x": "/w/ts=2024-01-01T00:00:00/x",
	} {
		got, err := store.Path(location)
		require.NoError(t, err, location)
		require.Equal(t, want, got)
	}
	for location, message := range map[string]string{
		"s3://bucket/key":    `scheme "s3" of s3://bucket/key is not supported by this version`,
		"gs://bucket/key":    `scheme "gs"`,
		"hdfs://namenode/x":  `scheme "hdfs"`,
		"abfss://c@a/x":      `scheme "abfss"`,
		"file://elsewhere/a": `host "elsewhere"`,
		"relative/path":      "not an absolute path",
		"file:relative":      "not an absolute path",
		"file://":            "not an absolute path",
		"":                   "not an absolute path",
		"file:///a\x00b":     "zero byte",
		"relative/a:b/c":     "not an absolute path",
	} {
		_, err := store.Path(location)
		require.ErrorContains(t, err, message)
		require.Equal(t, fault.Invalid, fault.KindOf(err))
		if strings.HasPrefix(message, "scheme") {
			require.Contains(t, fault.As(err).Remedy, "file:///path")
			served := store.NewKinds(s3.Kind(store.Environment{})).Refuse(location)
			require.ErrorContains(t, served, message)
			require.Equal(t, fault.Invalid, fault.KindOf(served))
			require.Equal(t, "keep the files on local disk (file:///path) or on S3 or a store that speaks its protocol (s3://bucket/path)", fault.As(served).Remedy)
		}
		_, err = store.Local{}.Open(t.Context(), location, store.SizeUnknown)
		require.Equal(t, fault.Invalid, fault.KindOf(err))
	}
}

func TestLocalNotAPlainFile(t *testing.T) {
	_, err := store.Local{}.Open(t.Context(), t.TempDir(), store.SizeUnknown)
	require.ErrorContains(t, err, "is not a regular file")
	require.Equal(t, fault.Corrupt, fault.KindOf(err))
}

// TestLocalOpensPlainFilesAlone: opening a device or a pipe may have any effect.
func TestLocalOpensPlainFilesAlone(t *testing.T) {
	opened := 0
	local := store.NewLocal(nil, func(path string) (store.File, error) {
		opened++
		return os.Open(path)
	})
	_, err := local.Open(t.Context(), os.DevNull, store.SizeUnknown)
	require.ErrorContains(t, err, "is not a regular file")
	require.Equal(t, fault.Corrupt, fault.KindOf(err))
	require.Zero(t, opened)
	path := filepath.Join(t.TempDir(), "plain")
	require.NoError(t, os.WriteFile(path, nil, 0o600))
	o, err := local.Open(t.Context(), path, 0)
	require.NoError(t, err)
	require.NoError(t, o.Close())
	require.Equal(t, 1, opened)
}

func TestLocalUnavailable(t *testing.T) {
	path := filepath.Join(t.TempDir(), "plain")
	require.NoError(t, os.WriteFile(path, nil, 0o600))
	_, err := store.Local{}.Open(t.Context(), filepath.Join(path, "below"), store.SizeUnknown)
	require.Equal(t, fault.Unavailable, fault.KindOf(err), "%v", err)
}

func TestLocalBecomesShorter(t *testing.T) {
	path := filepath.Join(t.TempDir(), "shrinking")
	require.NoError(t, os.WriteFile(path, make([]byte, 100), 0o600))
	o, err := store.Local{}.Open(t.Context(), path, 100)
	require.NoError(t, err)
	defer func() { require.NoError(t, o.Close()) }()
	require.NoError(t, os.Truncate(path, 50))
	err = o.ReadAt(t.Context(), memory.NewBufferBytes(make([]byte, 20)), 40)
	require.Equal(t, fault.Corrupt, fault.KindOf(err))
	require.ErrorContains(t, err, "shorter")
}
