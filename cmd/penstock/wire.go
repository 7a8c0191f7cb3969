package main

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/penstock/penstock/cache"
	"github.com/penstock/penstock/flight"
	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/config"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/parquet"
	"github.com/penstock/penstock/internal/spool"
	"github.com/penstock/penstock/internal/store"
	"github.com/penstock/penstock/internal/telemetry"
	"github.com/penstock/penstock/joiner"
	"github.com/penstock/penstock/joiner/spill"
	"github.com/penstock/penstock/loader"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/catalog/icebergcat"
	"github.com/penstock/penstock/loader/catalog/pintag"
	"github.com/penstock/penstock/loader/fanout"
	"github.com/penstock/penstock/loader/joined"
	"github.com/penstock/penstock/loader/plan"
	"github.com/penstock/penstock/loader/scan"
	"github.com/penstock/penstock/loader/scan/chunkcache"
)

// The caches of plans and of footers hold 1/cacheDivisor of the memory budget each, at most
// maxCache bytes; those of manifests, tables and listings hold half as much together. They come on top of the budget.
const (
	cacheDivisor = 32
	maxCache     = 128 << 20
)

// engine is everything that reads: serve serves it, and other commands read with it in
// process.
type engine struct {
	loader    *loader.Loader
	reads     loader.Options // of loader
	sharer    *fanout.Sharer // of the streams of a server
	streams   flight.Loader  // loader, or one whose streams share batches
	budget    *budget.Budget
	calls     *store.Calls
	footers   *cache.Cache[*parquet.Footer]
	manifests *cache.Cache[[]byte]
	tables    *cache.Cache[*catalog.Table]
	catalogs  []*icebergcat.Catalog
	set       *catalog.Set
	byName    map[string]*icebergcat.Catalog                                    // those of catalogs, as the config file names them
	requests  atomic.Pointer[func(store.Request)]                               // observes requests to remote storage; nil: nothing does
	sizes     atomic.Pointer[func(catalog string, d icebergcat.SizeDifference)] // warns of sizes in manifests; nil: nothing does
	tags      []*pintag.Tags
	looks     atomic.Pointer[func(pintag.Look)] // observes looks at tags; may be nil
	pools     []trimmed
	disk      *spool.Spool
	scanner   *scan.Scanner
	chunks    *chunkcache.ColumnCache // nil: decoded columns are not cached
	columns   columnDisk              // looked up for columns that chunks does not have
	memory    batch.Trimming          // of batches and decoded columns; one of pools
	closers   []func()                // of the parts above, in the order in which they were made
}

// rememberMetadata makes the caches of manifests, tables and lists of files, which hold about the given bytes
// together. It returns that of lists.
func (e *engine) rememberMetadata(bytes int64) (_ *loader.Listings, err error) {
	if e.manifests, err = cache.New[[]byte](bytes / 2); err != nil {
		return nil, err
	}
	e.closers = append(e.closers, e.manifests.Close)
	if e.tables, err = cache.New[*catalog.Table](bytes / 4); err != nil {
		return nil, err
	}
	e.closers = append(e.closers, e.tables.Close)
	listings, err := loader.NewListings(bytes / 4)
	if err != nil {
		return nil, err
	}
	e.closers = append(e.closers, listings.Close)
	return listings, nil
}

// assemble makes an engine. It is the one place that names the concrete types of its parts.
func assemble(ctx context.Context, c *config.Config) (_ *engine, err error) {
	pooled := maxPooled(c.Server.Memory)
	memory, scratch := batch.NewBoundedAllocator(pooled), batch.NewBoundedAllocator(pooled)
	e := &engine{
		budget: budget.New(c.Server.Memory),
		calls:  store.NewCalls(store.Options{Timeout: c.Server.StorageTimeout, Clock: time.Now}),
		pools:  []trimmed{memory, scratch},
		memory: memory,
	}
	files := store.NewBounded(store.Local{}, e.calls)
	defer func() {
		if err != nil {
			e.Close()
		}
	}()
	cached := min(c.Server.Memory/cacheDivisor, maxCache)
	listings, err := e.rememberMetadata(cached / 2)
	if err != nil {
		return nil, err
	}
	catalogs, err := e.open(ctx, c, files)
	if err != nil {
		return nil, err
	}
	if e.footers, err = cache.New[*parquet.Footer](cached); err != nil {
		return nil, err
	}
	e.closers = append(e.closers, e.footers.Close)
	plans, err := loader.NewPlans(cached)
	if err != nil {
		return nil, err
	}
	e.closers = append(e.closers, plans.Close)
	if limit := c.Server.CacheBytes(); limit > 0 {
		e.budget.OnLack(e.columns.giveUp) // before that of chunks, which then has more to release
		e.chunks = chunkcache.New(chunkcache.Options{Budget: e.budget, Clock: time.Now, Limit: limit, Disk: &e.columns})
	}
	scanner, err := scan.New(scan.Options{
		Files: catalogs, Footers: e.footers, Chunks: e.chunks, MaxFooter: c.Server.MaxMetadata, Memory: memory, Scratch: scratch, Budget: e.budget,
		RequireChecksums: c.Server.RequireChecksums,
		ReadTail:         c.Server.ReadTail, ReadGap: c.Server.ReadGap, ReadSize: c.Server.ReadSize, ReadAhead: readAhead(c.Server.ReadAhead),
	})
	if err != nil {
		return nil, err
	}
	e.disk, err = spool.Open(spool.Options{Folder: c.Server.Spool, Limit: c.Server.SpoolLimit, Memory: memory})
	if err != nil {
		return nil, err
	}
	e.set, e.scanner = catalogs, scanner
	e.reads = loader.Options{
		Strategies: strategies(),
		Disk: func(what string) (spill.Store, error) {
			file, err := e.disk.Create(what)
			if err != nil {
				return nil, err
			}
			return file, nil
		},
		Hold:     catalogs.Hold,
		Datasets: c.Datasets, Catalog: catalogs, Plans: plans, Listings: listings, Budget: e.budget, Memory: memory,
		MaxBatchBytes: c.Server.BatchBytes(),
		Scan: func(ctx context.Context, source plan.Source, columns []catalog.Field) (loader.Rows, error) {
			rows, err := scanner.Open(ctx, source, columns)
			if err != nil {
				return nil, err
			}
			return rows, nil
		},
		Share: func() joined.SharedReads { return scanner.Share() },
		Keep:  scanner.Keep,

		KeepBuildSides: c.Server.CacheBytes(),
	}
	e.loader = loader.New(e.reads)
	e.share(c)
	e.renewTags(ctx)
	return e, nil
}

// share makes the streams of a server share batches, unless the settings turn it off.
func (e *engine) share(c *config.Config) {
	e.streams = e.loader
	if window := c.Server.SharedBytes(); window > 0 {
		e.sharer = fanout.New(fanout.Options{Window: window, Budget: e.budget, Clock: time.Now})
		e.streams = e.sharer.Over(e.loader)
	}
}

// observe adds metrics of the engine's parts, and logs their failures. It is called once.
func (e *engine) observe(metrics *telemetry.Metrics, log *slog.Logger) {
	metrics.Budget(e.budget)
	metrics.Storage(e.calls)
	requests := metrics.Requests()
	e.requests.Store(&requests)
	sizes := sizeWarnings(log)
	e.sizes.Store(&sizes)
	e.observeTags(metrics, log)
	if e.chunks != nil {
		metrics.Cache(telemetry.CacheSource{Columns: e.chunks.Stats, Hits: e.chunks.Hits, Sides: e.loader.KeptBuildSides})
	}
	if e.sharer != nil {
		metrics.Sharing(e.sharer.Stats)
		e.sharer.LogTo(log)
	}
}

// readAhead converts the setting to scan's option, where nothing read ahead is NoAhead.
func readAhead(bytes int64) int64 {
	if bytes == 0 {
		return scan.NoAhead
	}
	return bytes
}

// strategies returns the custom join strategies that datasets may name, as custom:NAME. A
// build of Penstock with its own strategies adds them here (docs/custom.md).
func strategies() map[string]joiner.Custom { return nil }

// open opens every catalog, and reports the failures of all of them.
func (e *engine) open(ctx context.Context, c *config.Config, files store.Store) (*catalog.Set, error) {
	opened := map[string]catalog.Catalog{}
	e.byName = map[string]*icebergcat.Catalog{}
	var failures []error
	for _, name := range slices.Sorted(maps.Keys(c.Catalogs)) {
		one, err := e.openCatalog(ctx, c, c.Catalogs[name], files)
		if err != nil {
			failures = append(failures, fault.Op(trimPrefix(err, c.Catalogs[name].Stored), "%s: open catalog %s", c.File, name))
			continue
		}
		e.catalogs, e.byName[name] = append(e.catalogs, one), one
		e.closers = append(e.closers, one.Close)
		if opened[name], err = e.withTags(one, c.Catalogs[name]); err != nil {
			failures = append(failures, fault.Op(err, "%s: catalog %s", c.File, name))
		}
	}
	if len(failures) > 0 {
		return nil, together(failures)
	}
	return catalog.NewSet(opened, c.DefaultCatalog())
}

// trimPrefix removes the name of a catalog from the beginning of a failure's message.
func trimPrefix(err error, name string) error {
	if e := (*fault.Error)(nil); errors.As(err, &e) {
		out := *e
		out.Message = strings.TrimPrefix(out.Message, "catalog "+name+": ")
		return &out
	}
	return err
}

// together returns one failure for several, of the kind of the first.
func together(failures []error) error {
	if len(failures) == 1 {
		return failures[0]
	}
	e := &fault.Error{Kind: fault.KindOf(failures[0]), Message: errors.Join(failures...).Error(), Err: errors.Join(failures...)}
	for _, f := range failures {
		e.Faults = append(e.Faults, fault.Field{Message: f.Error()})
	}
	return e
}

// Close closes the parts of the engine, those made last first. Its streams have been
// released.
func (e *engine) Close() {
	for _, closer := range slices.Backward(e.closers) {
		closer()
	}
	e.closers = nil
}

// load reads a config file, with flags and the environment.
func (p process) load(file string, flags map[string]string) (*config.Config, error) {
	return config.Load(config.Origin{
		File: file, Env: p.env, Flags: flags, Memory: machineMemory(), Storage: stores(store.Environment{}).Properties(),
	})
}

func machineMemory() int64 { return config.MachineMemory(os.DirFS("/")) }
