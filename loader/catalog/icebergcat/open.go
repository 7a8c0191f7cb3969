package icebergcat

import (
	"context"
	"time"

	"github.com/penstock/penstock/cache"
	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/store"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/catalog/history"
	"github.com/penstock/penstock/loader/catalog/icebergcat/commits"
	"github.com/penstock/penstock/loader/catalog/icebergcat/listing"
	"github.com/penstock/penstock/loader/catalog/icebergcat/metadata"
	"github.com/penstock/penstock/loader/catalog/icebergcat/tags"
	"github.com/penstock/penstock/loader/catalog/locator"
	"github.com/penstock/penstock/loader/catalog/restcat"
	"github.com/penstock/penstock/loader/catalog/tablestore"
	"github.com/penstock/penstock/loader/dataset"
)

// Options configure a Catalog.
type Options struct {
	Name      string      // the name that the catalog's writers use for it
	Type      string      // see kinds
	URI       string      // the URI of a database (see sqlcat) or of a server (see restcat)
	Warehouse string      // a warehouse of a REST server, or a folder
	BaseDir   string      // the folder that relative paths start from
	Store     store.Store // reads local files
	// Stores are the kinds of remote storage that are supported. If it is nil, there are only local
	// files.
	Stores store.Kinds
	// Properties are the catalog's properties, with PyIceberg's names.
	Properties map[string]string
	// AllowedPrefixes are the folders in which the files of tables may be. If there are none, files
	// may be in the warehouse and in the folder of their table.
	AllowedPrefixes []string
	// Calls runs calls that access the catalog's own files, so that they end with their
	// context even if the disk hangs; nil runs them directly.
	Calls *store.Calls
	// Timeout limits a call of the catalog; 0 is unlimited.
	Timeout time.Duration
	// Clock returns the current time, to tell whether credentials and tokens have expired. If it is
	// nil, they are used until they are rejected.
	Clock func() time.Time
	// Sign returns the function that signs requests, for a REST catalog that needs signed requests.
	// If it is nil, such catalogs are refused.
	Sign func(restcat.Signing) (restcat.Signer, error)
	// MaxMetadata bounds the bytes, both stored and unpacked, of a metadata file,
	// manifest list or manifest. A larger one is Exhausted. 0 is unlimited.
	MaxMetadata int64
	// Manifests caches the stored content of manifests and manifest lists, and of metadata files on
	// remote storage that never change. If it is nil, files are read each time.
	Manifests *cache.Cache[[]byte]
	// Tables caches pinned tables, by the metadata that they were opened from. If it is nil,
	// metadata is parsed each time.
	Tables *cache.Cache[*catalog.Table]
	// If StoredSizes is true, the sizes of data files and delete files are those that storage
	// reports, not those in manifests. SizeDiffers is called for each file that is opened and whose
	// size is not the one in its manifest; it may be nil.
	StoredSizes bool
	SizeDiffers func(SizeDifference)
	// LookedUp is called after each request to the catalog for the metadata of tables; nil: nothing
	// is called. It needs Clock.
	LookedUp func(took time.Duration, err error)
	// WriteNamespaces are the namespaces whose tables may be changed. If there are none, no table
	// may be changed.
	WriteNamespaces []string
	// Created allows the first new table to create the SQLite file of a SQL catalog. See
	// sqlcat.Options.
	Created func(file string)
	// Unreachable is called with the error if the catalog does not answer Open, which then returns a catalog nevertheless. Its calls
	// return Unavailable until it answers. If Unreachable is nil, Open returns the error.
	Unreachable func(error)
	// Budget is charged for metadata while it is read and parsed; nil is unlimited.
	Budget *budget.Budget
}

// Catalog reads and changes the tables of one Iceberg catalog. It is safe for concurrent use.
type Catalog struct {
	*listing.FileLister
	*commits.TableWriter
	*tags.Tagger
	name    string
	options Options
	source  *metadata.Source
}

var (
	_ catalog.Catalog = (*Catalog)(nil)
	_ catalog.Opener  = (*Catalog)(nil)
	_ catalog.Sizer   = (*Catalog)(nil)

	_ catalog.Expecter = (*Catalog)(nil)
)

// Open opens a catalog and checks that it can be read. It returns Invalid for a type or a URI that
// is not supported; see the package of each type of catalog for other errors. The caller closes the
// catalog.
func Open(ctx context.Context, o Options) (*Catalog, error) {
	s, err := OpenSource(ctx, o)
	if err != nil {
		return nil, err
	}
	return Over(s, o)
}

// OpenSource opens the Source that reads the metadata of a catalog's tables. The caller closes the
// Locator of the Source.
func OpenSource(ctx context.Context, o Options) (*metadata.Source, error) {
	if o.Name == "" {
		return nil, fault.InvalidField("name", "the catalog has no name")
	}
	s := &metadata.Source{
		Catalog: o.Name, Stores: o.Stores, OnlyPrefixes: len(o.AllowedPrefixes) > 0, StoredSizes: o.StoredSizes, Clock: o.Clock,
		Most: o.MaxMetadata, Budget: o.Budget, Manifests: o.Manifests, Tables: o.Tables, LookedUp: o.LookedUp,
	}
	var err error
	if s.Prefixes, err = o.prefixes(); err != nil {
		return nil, err
	}
	return s, o.open(ctx, s)
}

// Over returns a catalog that reads from s. If it returns an error, it closes the Locator of s.
func Over(s *metadata.Source, o Options) (*Catalog, error) {
	warehouse, err := o.absolute(o.Warehouse)
	if err == nil {
		err = o.checkWrites()
	}
	if err != nil {
		s.Locator.Close()
		return nil, err
	}
	return &Catalog{
		name: o.Name, options: o, source: s,
		FileLister: listing.New(s), Tagger: tags.New(s, o.Type),
		TableWriter: commits.New(s, o.WriteNamespaces, warehouse, o.Type == dataset.CatalogREST),
	}, nil
}

// files returns the Files that open files with the given properties and, unless grants is nil, with
// the credentials that the catalog grants for each table.
func (o Options) files(properties func(context.Context) (map[string]string, error), grants func(context.Context, string) ([]locator.Grant, error)) *tablestore.Files {
	return tablestore.New(tablestore.Options{Local: o.Store, Kinds: o.Stores, Properties: properties, Clock: o.Clock, Grants: grants})
}

// Table pins the current state of a ref. See Source.Table.
func (c *Catalog) Table(ctx context.Context, name string, ref dataset.Ref) (*catalog.Table, error) {
	return c.source.Table(ctx, name, ref)
}

// At opens a state that was pinned before. See Source.At.
func (c *Catalog) At(ctx context.Context, name string, pin dataset.TablePin) (*catalog.Table, error) {
	return c.source.At(ctx, name, pin)
}

// Expect returns a context in which tables are looked up together. See catalog.Expecter.
func (c *Catalog) Expect(ctx context.Context, names []string) context.Context {
	return c.source.Expect(ctx, names)
}

// MetadataFile reads a metadata file below a table's folder. See Source.MetadataFile.
func (c *Catalog) MetadataFile(ctx context.Context, table, uuid, location string, each func(location string)) (owner string, snapshots int, err error) {
	return c.source.MetadataFile(ctx, table, uuid, location, each)
}

// History returns the snapshots of a table. See Source.History.
func (c *Catalog) History(ctx context.Context, table string, held *budget.Reservation) (*history.Table, error) {
	return c.source.History(ctx, table, held)
}

// Open opens a file of a pinned table. See catalog.Opener.
func (c *Catalog) Open(ctx context.Context, t *catalog.Table, location string, size int64) (store.Object, error) {
	if !c.options.StoredSizes {
		return c.source.Files.OpenIn(ctx, t.Name, t.Pin.UUID, location, size)
	}
	out, err := c.source.Files.OpenIn(ctx, t.Name, t.Pin.UUID, location, store.SizeUnknown)
	if err == nil && out.Size() != size && size != store.SizeUnknown && c.options.SizeDiffers != nil {
		c.options.SizeDiffers(SizeDifference{Table: t.Name, UUID: t.Pin.UUID, Location: location, Manifest: size, Stored: out.Size()})
	}
	return out, err
}

// Storage returns the store of a location, opened with the catalog's own properties. The location
// need not belong to a table.
func (c *Catalog) Storage(ctx context.Context, location string) (store.Store, error) {
	return c.source.Files.Store(ctx, location)
}

// SizeDifference describes a file whose size is not the one in its manifest.
type SizeDifference struct {
	Table, UUID, Location string
	Manifest, Stored      int64 // in bytes
}

// Close closes the catalog's connections. Call no method after it.
func (c *Catalog) Close() { c.source.Locator.Close() }
