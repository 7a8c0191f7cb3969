package icebergcat

import (
	"context"
	"time"

	"github.com/penstock/penstock/cache"
	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/store"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/catalog/locator"
	"github.com/penstock/penstock/loader/catalog/restcat"
)

// Options say where a catalog lies.
type Options struct {
	Name      string      // the catalog's stored name: what its writers call it
	Type      string      // one of the types
	URI       string      // of a database (see sqlcat) or of a server (see restcat)
	Warehouse string      // the one that a server is asked for; of a database none is needed
	BaseDir   string      // folder of the config file, for relative paths
	Store     store.Store // reads local files
	// S3 makes the store of files on S3, of Properties; nil: S3 is not served.
	S3 S3
	// Properties are the catalog's own, under the names that PyIceberg has for them.
	Properties map[string]string
	// Calls run what asks the catalog's own file, so that it ends with the
	// context of who asks, whatever that file's disk does; nil: nothing is run so.
	Calls *store.Calls
	// Timeout is how long a question to a catalog's server may take; 0 is for as long as
	// its asker waits.
	Timeout time.Duration
	// Clock says when keys and tokens end; nil: they are used until they are refused.
	Clock func() time.Time
	// Sign signs requests to a REST catalog that asks for it; nil: that is not served.
	Sign func(restcat.Signing) (restcat.Signer, error)
	// MaxMetadata is the most bytes, as stored and unpacked, of a metadata file,
	// manifest list or manifest: a larger one is Exhausted. 0 is no limit.
	MaxMetadata int64
	// Manifests remembers manifests and manifest lists, as stored; nil reads them each
	// time.
	Manifests *cache.Cache[[]byte]
	// Budget is charged for metadata while it is read and parsed; nil is unlimited.
	Budget *budget.Budget
}

// Catalog reads the tables of one Iceberg catalog. It is safe for concurrent use.
type Catalog struct {
	name    string
	options Options
	tables  locator.Locator
	access  *access // to files of tables for which the catalog gives nothing of its own
	granted granted
}

var (
	_ catalog.Catalog = (*Catalog)(nil)
	_ catalog.Opener  = (*Catalog)(nil)
)

// Open looks whether a catalog can be read. A type or URI that this version does
// not serve is Invalid; see the package of each type for other failures. The caller closes
// the catalog.
func Open(ctx context.Context, o Options) (*Catalog, error) {
	if o.Name == "" {
		return nil, fault.InvalidField("name", "the catalog has no name")
	}
	c := &Catalog{name: o.Name, options: o, access: &access{local: o.Store, make: o.S3, properties: o.Properties}}
	if err := c.open(ctx); err != nil {
		return nil, err
	}
	return c, nil
}

// Close ends the catalog's connections. Nobody reads afterwards.
func (c *Catalog) Close() { c.tables.Close() }
