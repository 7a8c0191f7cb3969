package engine

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/penstock/penstock/cache"
	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/clock"
	"github.com/penstock/penstock/internal/config"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/release"
	"github.com/penstock/penstock/internal/sigv4"
	"github.com/penstock/penstock/internal/store"
	"github.com/penstock/penstock/internal/store/s3"
	"github.com/penstock/penstock/internal/telemetry"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/catalog/icebergcat"
	"github.com/penstock/penstock/loader/catalog/pintag"
	"github.com/penstock/penstock/loader/catalog/restcat"
	"github.com/penstock/penstock/loader/dataset"
)

// Tables gives access to the tables in the catalogs of a config file. It reads the metadata of
// tables, and implements flight.TableHistory. It is safe for concurrent use.
type Tables struct {
	// Catalogs has all catalogs. A catalog with the setting `pin_tags` tags the snapshots that
	// streams read.
	Catalogs *catalog.Set
	// Untagged has the same catalogs, but they tag no snapshots.
	Untagged *catalog.Set
	Opened   []*icebergcat.Catalog // all catalogs, in the order of their names
	byName   map[string]*icebergcat.Catalog
	tags     []*pintag.Tags
	closers  []func() // functions that close the parts, in the order in which the parts were opened

	requests atomic.Pointer[func(store.Request)]                               // observes requests to remote storage; may be nil
	sizes    atomic.Pointer[func(catalog string, d icebergcat.SizeDifference)] // logs wrong sizes in manifests; may be nil
	looks    atomic.Pointer[func(pintag.Look)]                                 // observes checks of tags; may be nil
	lookups  atomic.Pointer[func(string, time.Duration, error)]                // observes lookups of tables, by catalog; may be nil
}

// tableOptions are the parts of an engine that its tables use.
type tableOptions struct {
	calls  *store.Calls
	budget *budget.Budget
	cached int64 // approximately how many bytes of manifests and tables may be cached
	// unreachable is called for each catalog that does not answer; nil: this is an error
	unreachable func(catalog string, err error)
	// created is called after the SQLite file of a catalog was created; nil: none is created
	created func(catalog, file string)
}

// openTables opens all catalogs of a config file. Its error describes the failures of all catalogs
// that cannot be opened.
func openTables(ctx context.Context, c *config.Config, o tableOptions) (_ *Tables, err error) {
	t := &Tables{byName: map[string]*icebergcat.Catalog{}}
	defer func() {
		if err != nil {
			t.close()
		}
	}()
	manifests, err := cache.New[[]byte](o.cached * 2 / 3)
	if err != nil {
		return nil, err
	}
	t.closers = append(t.closers, manifests.Close)
	tables, err := cache.New[*catalog.Table](o.cached / 3)
	if err != nil {
		return nil, err
	}
	t.closers = append(t.closers, tables.Close)
	tagged, untagged := map[string]catalog.Catalog{}, map[string]catalog.Catalog{}
	shared := icebergcat.Options{
		Store: store.NewBounded(store.Local{}, o.calls), Stores: t.storage(o.budget), Calls: o.calls, Budget: o.budget, Manifests: manifests, Tables: tables,
	}
	var failures []error
	for _, one := range t.openAll(ctx, c, o, shared) {
		name, block := one.name, c.Catalogs[one.name]
		if one.err != nil {
			failures = append(failures, fault.Op(trimPrefix(one.err, block.Stored), "%s: open catalog %s", c.File, name))
			continue
		}
		t.Opened, t.byName[name], untagged[name] = append(t.Opened, one.catalog), one.catalog, one.catalog
		t.closers = append(t.closers, one.catalog.Close)
		if tagged[name], err = t.withTags(one.catalog, block); err != nil {
			failures = append(failures, fault.Op(err, "%s: catalog %s", c.File, name))
		}
	}
	if len(failures) > 0 {
		return nil, fault.Together(failures)
	}
	if t.Catalogs, err = catalog.NewSet(tagged, c.DefaultCatalog()); err != nil {
		return nil, err
	}
	if t.Untagged, err = catalog.NewSet(untagged, c.DefaultCatalog()); err != nil {
		return nil, err
	}
	t.closers = append(t.closers, t.renewTags(ctx))
	return t, nil
}

// openedCatalog is a catalog of a config file, or the error of opening it.
type openedCatalog struct {
	name    string
	catalog *icebergcat.Catalog
	err     error
}

// openAll opens all catalogs of a config file at the same time, since one that does not answer takes the whole storage_timeout. It
// returns them in the order of their names. shared has the fields that all of them share.
func (t *Tables) openAll(ctx context.Context, c *config.Config, o tableOptions, shared icebergcat.Options) []openedCatalog {
	out := make([]openedCatalog, len(c.Catalogs))
	var opening sync.WaitGroup
	for i, name := range slices.Sorted(maps.Keys(c.Catalogs)) {
		block, options := c.Catalogs[name], shared
		options.SizeDiffers, options.LookedUp = t.sizeDiffers(name), t.lookedUp(name)
		if o.created != nil && len(block.WriteNamespaces) > 0 {
			options.Created = func(file string) { o.created(name, file) }
		}
		if o.unreachable != nil {
			options.Unreachable = func(err error) { o.unreachable(name, err) }
		}
		opening.Go(func() {
			one, err := openCatalog(ctx, c, block, options)
			out[i] = openedCatalog{name, one, err}
		})
	}
	opening.Wait()
	return out
}

// close closes the catalogs.
func (t *Tables) close() {
	for _, closer := range slices.Backward(t.closers) {
		closer()
	}
}

// observe adds metrics of catalogs and storage, and lets their failures be logged. It must be
// called at most once.
func (t *Tables) observe(metrics *telemetry.Metrics, log *slog.Logger) {
	requests, sizes, looks := metrics.Requests(), sizeWarnings(log), tagLooks(metrics, log)
	lookups := metrics.Lookups(slices.Sorted(maps.Keys(t.byName)))
	t.requests.Store(&requests)
	t.sizes.Store(&sizes)
	t.looks.Store(&looks)
	t.lookups.Store(&lookups)
}

// sizeDiffers returns the function that logs wrong sizes in the manifests of a catalog.
func (t *Tables) sizeDiffers(catalog string) func(icebergcat.SizeDifference) {
	return func(d icebergcat.SizeDifference) {
		if warn := t.sizes.Load(); warn != nil {
			(*warn)(catalog, d)
		}
	}
}

// lookedUp returns the function that counts the lookups of tables in a catalog.
func (t *Tables) lookedUp(catalog string) func(time.Duration, error) {
	return func(took time.Duration, err error) {
		if observe := t.lookups.Load(); observe != nil {
			(*observe)(catalog, took, err)
		}
	}
}

// openCatalog opens the catalog that a block of the config file describes. The caller has set the
// fields of o that all catalogs share.
func openCatalog(ctx context.Context, c *config.Config, block dataset.Catalog, o icebergcat.Options) (*icebergcat.Catalog, error) {
	properties := config.Properties(block)
	if err := o.Stores.Check(properties); err != nil {
		return nil, err
	}
	o.Name, o.Type, o.URI, o.Warehouse, o.BaseDir, o.Properties = block.Stored, block.Type, block.URI, block.Warehouse, c.Dir(), properties
	o.AllowedPrefixes, o.WriteNamespaces, o.StoredSizes = block.AllowedPrefixes, block.WriteNamespaces, block.StoredSizes
	o.Timeout, o.MaxMetadata, o.Clock = c.Server.StorageTimeout, c.Server.MaxMetadata, clock.Now
	o.Sign = func(how restcat.Signing) (restcat.Signer, error) { return signer(ctx, how) }
	return icebergcat.Open(ctx, o)
}

// trimPrefix removes the prefix "catalog NAME: " from the message of an error.
func trimPrefix(err error, name string) error {
	if e := (*fault.Error)(nil); errors.As(err, &e) {
		out := *e
		out.Message = strings.TrimPrefix(out.Message, "catalog "+name+": ")
		return &out
	}
	return err
}

// sizeWarnings returns a function that logs a warning about a file whose size differs from its manifest, at most once for each
// table of a catalog.
func sizeWarnings(log *slog.Logger) func(catalog string, d icebergcat.SizeDifference) {
	var warned sync.Map
	return func(catalog string, d icebergcat.SizeDifference) {
		if _, before := warned.LoadOrStore([2]string{catalog, d.UUID}, true); before {
			return
		}
		log.Warn("the size of a file differs from the size in its manifest; the file is read nevertheless, because of file_sizes: storage", "catalog", catalog, "table", d.Table,
			"file", d.Location, "manifest", d.Manifest, "storage", d.Stored)
	}
}

// signer returns a signer of requests to a catalog. It signs with the keys in the catalog's
// properties or, if there are none, with the keys that the server uses without properties. These
// keys may differ from the keys for storage.
func signer(ctx context.Context, how restcat.Signing) (restcat.Signer, error) {
	properties := map[string]string{}
	for name, value := range how.Properties {
		if of, ok := strings.CutPrefix(name, "rest."); ok {
			properties["s3."+of] = value
		} else if strings.HasPrefix(name, "client.") {
			properties[name] = value
		}
	}
	settings, _, err := s3.FromProperties(properties)
	if err != nil {
		return nil, err
	}
	keys, region, err := settings.Identity(context.WithoutCancel(ctx))
	if err != nil {
		return nil, err
	}
	if how.Region != "" {
		region = how.Region
	}
	if region == "" || keys == nil {
		return nil, fault.InvalidField("rest.signing-region", "requests cannot be signed without a region").
			WithRemedy("write rest.signing-region, or client.region")
	}
	return sigv4.New(keys, region, how.Service, clock.Now), nil
}

// StorageProperties returns the names of the catalog properties that configure remote storage.
func StorageProperties() []string { return stores(store.Environment{}).Properties() }

// stores returns the supported kinds of remote storage. To add another one, add its package
// below internal/store and its row here.
func stores(env store.Environment) store.Kinds {
	return store.NewKinds(
		s3.Kind(env),
	)
}

// EnvironmentStorage returns a function that opens the storage of a location, for clients without a
// config file. The function uses only settings in the environment of the process.
func EnvironmentStorage() func(context.Context, string) (store.Store, error) {
	kinds, opened := stores(store.Environment{Clock: clock.Now}), map[*store.Kind]store.Store{}
	var mu sync.Mutex
	return func(ctx context.Context, location string) (store.Store, error) {
		kind := kinds.Of(location)
		if kind == nil {
			return nil, kinds.Refuse(location)
		}
		mu.Lock()
		defer mu.Unlock()
		if opened[kind] != nil {
			return opened[kind], nil
		}
		files, err := kind.Open(context.WithoutCancel(ctx), nil, nil) // the store is used after the call has returned
		if err == nil {
			opened[kind] = files
		}
		return files, err
	}
}

// storage returns the kinds of remote storage. The requests of their stores are observed, and
// reserve memory from the budget held.
func (t *Tables) storage(held *budget.Budget) store.Kinds {
	return stores(store.Environment{
		Clock: clock.Now,
		Observe: func(r store.Request) {
			if observe := t.requests.Load(); observe != nil {
				(*observe)(r)
			}
		},
		Reserve: func(ctx context.Context, bytes int64) (*release.Handle, error) {
			head, err := held.ReserveFor(ctx, "the head of a file", bytes)
			if err != nil {
				return nil, err
			}
			return release.New(head.Release), nil
		},
	})
}
