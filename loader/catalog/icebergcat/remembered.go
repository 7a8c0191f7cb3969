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
