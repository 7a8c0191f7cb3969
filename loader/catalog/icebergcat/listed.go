package icebergcat

import (
	"context"
	"crypto/sha256"

	"github.com/penstock/penstock/internal/digest"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/dataset"
)

// tableOf identifies a table at a ref or a pin, by the metadata that the catalog has now.
type tableOf struct {
	catalog, name string
	ref           dataset.Ref
	pin           dataset.TablePin
	metadata      [sha256.Size]byte // the digest of its text
}

// perTable is the cost of a remembered table in addition to the size of its metadata, of which its columns,
// specs and orders are a part.
const perTable = 2000

// pinned returns a table at the pin that resolve finds in its metadata. The catalog is asked for the current
// metadata in any case: only what follows from that is remembered.
func (c *Catalog) pinned(ctx context.Context, of tableOf, resolve func(*loaded) (dataset.TablePin, error)) (*catalog.Table, error) {
	held := c.hold(of.name)
	defer held.Release()
	meta, grants, err := c.metadata(ctx, of.name, held)
	if err != nil {
		return nil, err
	}
	parsed := false
	open := func(ctx context.Context) (*catalog.Table, int64, error) {
		parsed = true
		if err := c.parse(meta, grants); err != nil {
			return nil, 0, err
		}
		pin, err := resolve(meta)
		if err != nil {
			return nil, 0, err
		}
		t, err := c.table(ctx, meta, pin)
		return t, int64(len(meta.text)) + perTable, err
	}
	if c.options.Tables == nil {
		t, _, err := open(ctx)
		return t, err
	}
	of.catalog, of.metadata = c.name, sha256.Sum256(meta.text)
	t, err := c.options.Tables.Get(ctx, digest.Of(of), open)
	if err == nil && !parsed {
		c.files.Table(of.name, t.Pin.UUID, grants) // files are opened with what was granted last
	}
	return t, err
}

// listingOf identifies the files of a pinned table with what is known of their columns. They never
// change: a snapshot's files, specs and schemas are immutable.
type listingOf struct {
	catalog, table  string
	pin             dataset.TablePin
	columns, bounds []int
}

// Estimated bytes of what a listing keeps of a file.
const (
	listedFile   = 600 // with its location and partition values
	listedRange  = 180 // the value range of a column
	listedDelete = 300 // a delete file, or a group of them; several files may share it
)

// listed returns the files of a pinned table, which are listed at most once while they are remembered. Whoever
// pins a table has found its snapshot in the catalog, so that a snapshot that is gone is noticed all the same.
func (c *Catalog) listed(ctx context.Context, t *catalog.Table, columns, bounds []int) ([]catalog.File, error) {
	if c.options.Listings == nil {
		return c.list(ctx, t, columns, bounds)
	}
	key := digest.Of(listingOf{catalog: c.name, table: t.Name, pin: t.Pin, columns: columns, bounds: bounds})
	return c.options.Listings.Get(ctx, key, func(ctx context.Context) ([]catalog.File, int64, error) {
		files, err := c.list(ctx, t, columns, bounds)
		bytes := int64(listedFile)
		for _, f := range files {
			bytes += listedFile + int64(len(f.Ranges))*listedRange + int64(len(f.Deletes.Positions)+len(f.Deletes.Equality))*listedDelete
		}
		return files, bytes, err
	})
}
