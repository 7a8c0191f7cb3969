package store_test

import (
	"io/fs"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/store"
)

// TestMounts: the longest mount point wins, whole names count, and links are
// read on the root file system alone.
func TestMounts(t *testing.T) {
	links := map[string]string{
		"/data": "/mnt/nfs", "/srv/tables": "../mnt/nfs/tables", "/loop": "/loop/x",
		"/chain": "/data", "/mnt/nfs/out": "/mnt/disk",
	}
	table := store.NewMountTable(nil, func() []string { return []string{"/", "/mnt/nfs", "/mnt/disk", "/mnt/disk/inner"} },
		func(path string) (string, error) {
			require.NotRegexp(t, "^/mnt/(nfs|disk)(/|$)", path, "a mount that may hang is asked")
			to, ok := links[path]
			if !ok {
				return "", fs.ErrInvalid
			}
			return to, nil
		})
	for path, want := range map[string]string{
		"/a":                     "/",
		"/mnt/a":                 "/",
		"/mnt/nfsx/a":            "/",
		"/mnt/nfs/a":             "/mnt/nfs",
		"/mnt/nfs/b/c/a":         "/mnt/nfs",
		"/mnt/disk/b/a":          "/mnt/disk",
		"/mnt/disk/inner/a":      "/mnt/disk/inner",
		"/data/a":                "/mnt/nfs",
		"/data/b/a":              "/mnt/nfs",
		"/chain/b/a":             "/mnt/nfs",
		"/srv/tables/b/a":        "/mnt/nfs",
		"/mnt/nfs/out/a":         "/mnt/nfs",
		"/loop/a":                "/",
		"/mnt/disk/innermost/aa": "/mnt/disk",
	} {
		for range 2 { // found, and remembered
			require.Equal(t, want, table.Of(path), path)
		}
	}
	require.Equal(t, "/", store.NewMountTable(nil, func() []string { return nil }, notALink).Of("/a"))
}

func notALink(string) (string, error) { return "", fs.ErrInvalid }

// TestMountsAreReadAgain checks that mounts are read again after a minute.
func TestMountsAreReadAgain(t *testing.T) {
	now, points := time.Unix(0, 0), []string{"/"}
	table := store.NewMountTable(func() time.Time { return now }, func() []string { return points }, notALink)
	require.Equal(t, "/", table.Of("/new/a"))
	points = []string{"/", "/new"}
	require.Equal(t, "/", table.Of("/new/a"))
	now = now.Add(time.Minute)
	require.Equal(t, "/new", table.Of("/new/a"))
}

func TestParseMounts(t *testing.T) {
	require.Equal(t, []string{"/", "/mnt/two words", "/mnt/nfs"}, store.ParseMounts(
		"27 1 254:0 / / rw,relatime - ext4 /dev/vda rw\n"+
			`40 27 0:40 /sub /mnt/two\040words rw shared:5 - tmpfs none rw`+"\n"+
			"short line\n"+
			"41 27 0:41 / /mnt/nfs rw - nfs4 host:/export rw,hard\n"))
}
