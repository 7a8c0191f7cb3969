package metadata

import (
	"context"
	"crypto/sha256"

	"github.com/penstock/penstock/internal/digest"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/catalog/locator"
	"github.com/penstock/penstock/loader/dataset"
)

// tableOf identifies a table at a ref or a pin, by the metadata that the catalog has now.
type tableOf struct {
	catalog, name string
	ref           dataset.Ref
	pin           dataset.TablePin
	location      string            // of the metadata file, if no other file will ever have its name
	metadata      [sha256.Size]byte // otherwise the digest of the metadata's text
}

// perTable is the memory of a cached table, in bytes, in addition to the size of its metadata. That
// size stands for the table's columns, partition specs and sort orders, which come from the
// metadata.
const perTable = 2000

// pinned returns a table at the pin that resolve returns for the table's metadata. It always asks
// the catalog which metadata is current; only the table that follows from this metadata is cached.
func (s *Source) pinned(ctx context.Context, of tableOf, resolve func(*Loaded) (dataset.TablePin, error)) (*catalog.Table, error) {
	held := s.Hold(of.name)
	defer held.Release()
	at, err := s.locate(ctx, of.name, held)
	if err != nil {
		return nil, err
	}
	of.catalog = s.Catalog
	if s.Tables == nil || at.Text != nil || !unique(at.Location) {
		meta, grants, err := s.metadataAt(ctx, at)
		if err != nil {
			return nil, err
		}
		of.metadata = sha256.Sum256(meta.Text)
		return s.cachedTable(ctx, of, grants, func(ctx context.Context) (*catalog.Table, int64, error) {
			return s.resolved(ctx, meta, grants, of.ref, resolve)
		})
	}
	of.location = at.Location
	moved := false
	t, err := s.cachedTable(ctx, of, at.Grants, func(ctx context.Context) (*catalog.Table, int64, error) {
		meta, grants, err := s.metadataAt(ctx, at)
		if err != nil {
			return nil, 0, err
		}
		moved = meta.File.Location != at.Location
		return s.resolved(ctx, meta, grants, of.ref, resolve)
	})
	if moved { // another writer committed meanwhile, and removed the file
		s.Tables.Forget(digest.Of(of))
	}
	return t, err
}

// cachedTable returns a table from the cache, or opens it.
func (s *Source) cachedTable(ctx context.Context, of tableOf, grants []locator.Grant, open func(context.Context) (*catalog.Table, int64, error)) (*catalog.Table, error) {
	if s.Tables == nil {
		t, _, err := open(ctx)
		return t, err
	}
	opened := false
	t, err := s.Tables.Get(ctx, digest.Of(of), func(ctx context.Context) (*catalog.Table, int64, error) {
		opened = true
		return open(ctx)
	})
	if err == nil && !opened {
		s.Files.Table(of.name, t.Pin.UUID, grants) // files are opened with the latest grants
	}
	return t, err
}

// resolved parses the metadata, and returns the table at the pin that resolve returns for it, and
// the memory of the cached table in bytes. ref is the ref of the table; zero for a pin.
func (s *Source) resolved(ctx context.Context, meta *Loaded, grants []locator.Grant, ref dataset.Ref, resolve func(*Loaded) (dataset.TablePin, error)) (*catalog.Table, int64, error) {
	if err := s.parse(meta, grants); err != nil {
		return nil, 0, err
	}
	pin, err := resolve(meta)
	if err != nil {
		return nil, 0, err
	}
	t, err := s.TableAt(ctx, meta, pin)
	if err != nil {
		return nil, 0, err
	}
	t.FixedSchema = ref.Snapshot != 0 || meta.isTag(ref.Name)
	return t, int64(len(meta.Text)) + perTable, nil
}
