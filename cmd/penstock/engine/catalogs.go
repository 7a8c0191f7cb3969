package engine

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/penstock/penstock/internal/config"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/release"
	"github.com/penstock/penstock/internal/sigv4"
	"github.com/penstock/penstock/internal/store"
	"github.com/penstock/penstock/internal/store/s3"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/catalog/icebergcat"
	"github.com/penstock/penstock/loader/catalog/restcat"
	"github.com/penstock/penstock/loader/dataset"
)

// openCatalog opens one catalog of the config file.
func (e *Engine) openCatalog(ctx context.Context, c *config.Config, o dataset.Catalog, files store.Store) (*icebergcat.Catalog, error) {
	properties := config.Properties(o)
	kinds := e.storage()
	if err := kinds.Check(properties); err != nil {
		return nil, err
	}
	return icebergcat.Open(ctx, icebergcat.Options{
		Name: o.Stored, Type: o.Type, URI: o.URI, Warehouse: o.Warehouse, BaseDir: c.Dir(), Properties: properties, AllowedPrefixes: o.AllowedPrefixes, WriteNamespaces: o.WriteNamespaces,
		StoredSizes: o.StoredSizes, SizeDiffers: func(d icebergcat.SizeDifference) {
			if warn := e.sizes.Load(); warn != nil {
				(*warn)(o.Name, d)
			}
		},
		Store: files, Stores: kinds, Calls: e.calls, Timeout: c.Server.StorageTimeout, Clock: time.Now,
		MaxMetadata: c.Server.MaxMetadata, Budget: e.Budget, Manifests: e.manifests, Tables: e.tables,
		Sign: func(how restcat.Signing) (restcat.Signer, error) { return signer(ctx, how) },
	})
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

// signer returns a signer of requests to a catalog. It uses the catalog's own keys, or else those of the
// server. They may differ from the keys for storage.
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
	return sigv4.New(keys, region, how.Service, time.Now), nil
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

// storage returns the kinds of remote storage, connected to the engine's memory budget and metrics.
func (e *Engine) storage() store.Kinds {
	return stores(store.Environment{
		Clock: time.Now,
		Observe: func(r store.Request) {
			if observe := e.requests.Load(); observe != nil {
				(*observe)(r)
			}
		},
		Reserve: func(ctx context.Context, bytes int64) (*release.Handle, error) {
			held, err := e.Budget.ReserveFor(ctx, "the head of a file", bytes)
			if err != nil {
				return nil, err
			}
			return release.New(held.Release), nil
		},
	})
}

// CatalogSet returns a set of the open catalogs of a config file.
func (e *Engine) CatalogSet(c *config.Config) (*catalog.Set, error) {
	all := map[string]catalog.Catalog{}
	for i, name := range slices.Sorted(maps.Keys(c.Catalogs)) { // Opened has the same order
		all[name] = e.Opened[i]
	}
	return catalog.NewSet(all, c.DefaultCatalog())
}
