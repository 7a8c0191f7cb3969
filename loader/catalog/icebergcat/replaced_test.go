package icebergcat_test

import (
	"context"
	"database/sql"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/store"
	"github.com/penstock/penstock/loader/catalog/icebergcat"
	"github.com/penstock/penstock/loader/catalog/icebergcat/icebergtest"
	"github.com/penstock/penstock/loader/dataset"
)

// tables makes tables of one name, each in a catalog of its own, and returns
// their metadata files and uuids.
func tables(t *testing.T, n int) (metadata, uuids []string) {
	t.Helper()
	for range n {
		w := icebergtest.NewWriter(t)
		table := w.Create(t, icebergtest.Events, icebergtest.IDSchema())
		metadata = append(metadata, table.MetadataLocation())
		uuids = append(uuids, table.Metadata().TableUUID().String())
	}
	return metadata, uuids
}

func openFile(t *testing.T, path string) *icebergcat.Catalog {
	t.Helper()
	c, err := icebergcat.Open(t.Context(), icebergcat.Options{Name: "default", Type: "sql", URI: "sqlite:///" + path, Store: store.Local{}})
	require.NoError(t, err)
	return c
}

// After the catalog's file was replaced, every call is answered from the new file, however
// many calls are running.
func TestReplacedFileIsReadAtOnce(t *testing.T) {
	const askers, between = 8, 40
	metadata, uuids := tables(t, 4)
	place := map[string]int{}
	for i, uuid := range uuids {
		place[uuid] = i
	}
	for _, mode := range []string{"DELETE", "WAL"} {
		t.Run(mode, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, "catalog.db")
			icebergtest.CatalogFile(t, path, mode, metadata[0])
			c := openFile(t, path)
			var replaced atomic.Int64 // files that surely have been put in place
			ctx, stop := context.WithCancel(t.Context())
			group, ctx := errgroup.WithContext(ctx)
			answered := make(chan struct{})
			for range askers {
				group.Go(func() error {
					for {
						least := replaced.Load()
						table, err := c.Table(context.WithoutCancel(ctx), icebergtest.Events, dataset.Ref{})
						if err != nil {
							return err
						}
						got, most := int64(place[table.Pin.UUID]), replaced.Load()+1
						if got < least || got > most {
							return fault.New(fault.Internal, "file %d answered, files %d to %d were in place", got, least, most)
						}
						select {
						case answered <- struct{}{}:
						case <-ctx.Done():
							return nil
						}
					}
				})
			}
			answers := func() {
				for range between {
					select {
					case <-answered:
					case <-ctx.Done():
						return
					}
				}
			}
			for i := 1; i < len(metadata); i++ {
				answers()
				next := filepath.Join(dir, "next.db")
				icebergtest.CatalogFile(t, next, mode, metadata[i])
				require.NoError(t, os.Rename(next, path))
				replaced.Store(int64(i))
			}
			answers()
			stop()
			require.NoError(t, group.Wait())
			table, err := c.Table(t.Context(), icebergtest.Events, dataset.Ref{})
			require.NoError(t, err)
			require.Equal(t, uuids[len(uuids)-1], table.Pin.UUID)
		})
	}
}

// If the catalog's file disappears after the start, calls fail with that error until the
// file is back.
func TestLostFile(t *testing.T) {
	metadata, uuids := tables(t, 2)
	path := filepath.Join(t.TempDir(), "catalog.db")
	icebergtest.CatalogFile(t, path, "DELETE", metadata[0])
	c := openFile(t, path)
	ask := func() (string, error) {
		table, err := c.Table(t.Context(), icebergtest.Events, dataset.Ref{})
		if err != nil {
			return "", err
		}
		return table.Pin.UUID, nil
	}
	require.NoError(t, os.Remove(path))
	for name, c := range map[string]struct {
		put  func() error
		text string
	}{
		"none":     {func() error { return nil }, "there is no file " + path},
		"a folder": {func() error { return os.Mkdir(path, 0o700) }, path + " is not a file"},
		"empty":    {func() error { return os.WriteFile(path, nil, 0o600) }, path + " holds no Iceberg catalog"},
	} {
		require.NoError(t, c.put())
		_, err := ask()
		require.ErrorContains(t, err, c.text, name)
		require.ErrorContains(t, err, "put the catalog's file back", name)
		require.Equal(t, fault.Unavailable.String(), fault.KindOf(err).String(), name)
		require.NoError(t, os.RemoveAll(path))
	}
	_, err := os.Stat(path)
	require.ErrorIs(t, err, os.ErrNotExist, "asking makes no file")
	icebergtest.CatalogFile(t, path, "DELETE", metadata[1])
	uuid, err := ask()
	require.NoError(t, err)
	require.Equal(t, uuids[1], uuid)
}

// A file that is being copied over the catalog is never read as a catalog of other tables,
// however much of it was copied.
func TestHalfWrittenFile(t *testing.T) {
	metadata, uuids := tables(t, 1)
	dir := t.TempDir()
	path, whole := filepath.Join(dir, "catalog.db"), filepath.Join(dir, "whole.db")
	icebergtest.CatalogFile(t, path, "DELETE", metadata[0])
	icebergtest.CatalogFile(t, whole, "DELETE", metadata[0])
	c := openFile(t, path)
	content, err := os.ReadFile(whole)
	require.NoError(t, err)
	for size := 0; size < len(content); size += 1000 {
		require.NoError(t, os.WriteFile(path, content[:size], 0o600))
		table, err := c.Table(t.Context(), icebergtest.Events, dataset.Ref{})
		if err == nil {
			require.Equal(t, uuids[0], table.Pin.UUID, "%d of %d bytes", size, len(content))
			continue
		}
		kind := fault.KindOf(err)
		require.True(t, kind == fault.Unavailable || kind == fault.Corrupt, "%d of %d bytes: %v", size, len(content), err)
	}
	require.NoError(t, os.WriteFile(path, content, 0o600))
	table, err := c.Table(t.Context(), icebergtest.Events, dataset.Ref{})
	require.NoError(t, err)
	require.Equal(t, uuids[0], table.Pin.UUID)
}

// While a writer has the file locked, each caller waits as long as its own context allows,
// even behind another caller that waits.
func TestLockedFile(t *testing.T) {
	metadata, _ := tables(t, 1)
	path := filepath.Join(t.TempDir(), "catalog.db")
	icebergtest.CatalogFile(t, path, "DELETE", metadata[0])
	c := openFile(t, path)
	db, err := sql.Open("sqlite", path)
	require.NoError(t, err)
	db.SetMaxOpenConns(1)
	_, err = db.ExecContext(t.Context(), "BEGIN EXCLUSIVE")
	require.NoError(t, err)

	var asking sync.WaitGroup
	first, endFirst := context.WithCancel(t.Context())
	second, endSecond := context.WithCancel(t.Context())
	failures := make([]error, 2)
	for i, ctx := range []context.Context{first, second} {
		asking.Go(func() { _, failures[i] = c.Table(ctx, icebergtest.Events, dataset.Ref{}) })
	}
	endSecond()
	endFirst()
	asking.Wait()
	for _, err := range failures {
		require.ErrorIs(t, err, context.Canceled)
	}
	_, err = db.ExecContext(t.Context(), "ROLLBACK")
	require.NoError(t, err)
	require.NoError(t, db.Close())
	_, err = c.Table(t.Context(), icebergtest.Events, dataset.Ref{})
	require.NoError(t, err)
}
