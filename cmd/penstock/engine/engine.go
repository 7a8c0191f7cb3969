// Package engine builds the parts that read and write tables from a config file: catalogs, stores,
// caches, the scanner, the loader, and the writers. Only this package creates these parts.
package engine

import (
	"context"
	"log/slog"
	"runtime"
	"slices"

	"github.com/penstock/penstock/cache"
	"github.com/penstock/penstock/flight"
	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/clock"
	"github.com/penstock/penstock/internal/config"
	"github.com/penstock/penstock/internal/cores"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/fitted"
	"github.com/penstock/penstock/internal/parquet"
	"github.com/penstock/penstock/internal/spool"
	"github.com/penstock/penstock/internal/store"
	"github.com/penstock/penstock/internal/telemetry"
	"github.com/penstock/penstock/internal/trace"
	"github.com/penstock/penstock/joiner"
	"github.com/penstock/penstock/joiner/spill"
	"github.com/penstock/penstock/loader"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/fanout"
	"github.com/penstock/penstock/loader/joined"
	"github.com/penstock/penstock/loader/plan"
	"github.com/penstock/penstock/loader/scan"
	"github.com/penstock/penstock/loader/scan/chunkcache"
)

// The cache of plans holds up to 1/cacheDivisor of the memory budget, but at most maxCache bytes.
// The cache of footers holds as much. The caches of manifests, tables and listings together hold up
// to half as much. All of this memory is in addition to the budget.
const (
	cacheDivisor = 32
	maxCache     = 128 << 20
)

// Engine holds the parts that read and write tables. The command serve offers them to clients over
// the network; other commands use them in process.
type Engine struct {
	Loader  *loader.Loader
	reads   loader.Options // the options of Loader
	sharer  *fanout.Sharer // shares batches between the streams of a server; may be nil
	Streams flight.Loader  // Loader itself, or a loader that uses Loader and whose streams share batches
	Budget  *budget.Budget
	calls   *store.Calls
	Tables  *Tables
	pools   []trimmed
	disk    *spool.Spool
	scanner *scan.Scanner
	chunks  *chunkcache.ColumnCache // nil: decoded columns are not cached
	columns columnDisk              // the disk tier of chunks
	parts   keptParts               // of statistics
	lists   *fitted.Source          // the fitted lists of datasets
	Cores   *cores.Cores            // decode, and assemble batches
	Tracer  *trace.Tracer           // of a server, set by Prepare; nil: nothing is traced
	server  config.Server           // the settings
	memory  batch.Trimming          // allocates batches and decoded columns; it is also in pools
	closers []func()                // functions that close the parts above, in the order of the parts' creation
}

// Assemble creates an engine from a config. The caller closes it. If a catalog that allows writes has
// a SQLite file that does not exist, the first new table creates the file, and created is then called.
// If created is nil, such a file is an error.
func Assemble(ctx context.Context, c *config.Config, created func(catalog, file string)) (*Engine, error) {
	return assemble(ctx, c, tableOptions{created: created})
}

// AssembleServer creates an engine like Assemble, for a server that also starts if catalogs do not answer: it serves the others. It
// calls unreachable for each catalog that does not. Calls for its tables are Unavailable until it answers.
func AssembleServer(ctx context.Context, c *config.Config, unreachable func(catalog string, err error)) (*Engine, error) {
	return assemble(ctx, c, tableOptions{unreachable: unreachable})
}

func assemble(ctx context.Context, c *config.Config, o tableOptions) (_ *Engine, err error) {
	pooled := maxPooled(c.Server.Memory)
	memory, scratch := batch.NewBoundedAllocator(pooled), batch.NewBoundedAllocator(pooled)
	e := &Engine{
		Budget: budget.New(c.Server.Memory),
		calls:  store.NewCalls(store.Options{Timeout: c.Server.StorageTimeout, Clock: clock.Now}),
		pools:  []trimmed{memory, scratch}, memory: memory, server: c.Server, Cores: cores.New(runtime.GOMAXPROCS(0)),
	}
	e.parts.engine, e.lists = e, fitted.NewSource(e.Budget)
	defer func() {
		if err != nil {
			e.Close()
		}
	}()
	if err = e.ReadLists(c); err != nil {
		return nil, err
	}
	cached := min(c.Server.Memory/cacheDivisor, maxCache)
	listings, err := loader.NewListings(cached / 8)
	if err != nil {
		return nil, err
	}
	e.closers = append(e.closers, listings.Close)
	o.calls, o.budget, o.cached = e.calls, e.Budget, cached*3/8
	if e.Tables, err = openTables(ctx, c, o); err != nil {
		return nil, err
	}
	e.closers = append(e.closers, e.Tables.close)
	footers, err := cache.New[*parquet.Footer](cached)
	if err != nil {
		return nil, err
	}
	e.closers = append(e.closers, footers.Close)
	plans, err := loader.NewPlans(cached)
	if err != nil {
		return nil, err
	}
	e.closers = append(e.closers, plans.Close)
	if limit := c.Server.CacheBytes(); limit > 0 {
		e.Budget.OnLack(e.columns.giveUp) // registered before chunks registers its function, so that chunks can then release more memory
		e.chunks = chunkcache.New(chunkcache.Options{Budget: e.Budget, Clock: clock.Now, Limit: limit, Disk: &e.columns})
	}
	scanner, err := scan.New(scan.Options{
		Files: e.Tables.Catalogs, Footers: footers, Chunks: e.chunks, MaxFooter: c.Server.MaxMetadata, Memory: memory, Scratch: scratch, Budget: e.Budget, Cores: e.Cores,
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
	e.scanner = scanner
	e.reads = loader.Options{
		Strategies: strategies(),
		Disk:       e.spill,
		Hold:       e.Tables.Catalogs.Hold,
		Datasets:   c.Datasets, Catalog: e.Tables.Catalogs, Plans: plans, Listings: listings, Budget: e.Budget, Memory: memory, Cores: e.Cores,
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
		CheckLimits:    e.checkLimits,
	}
	e.Loader = loader.New(e.reads)
	e.share(c)
	return e, nil
}

// spill creates a file for rows that do not fit in memory.
func (e *Engine) spill(what string) (spill.Store, error) {
	file, err := e.disk.Create(what)
	if err != nil {
		return nil, err
	}
	return file, nil
}

// share makes the streams of a server share batches, unless the settings turn it off.
func (e *Engine) share(c *config.Config) {
	e.Streams = e.Loader
	if window := c.Server.SharedBytes(); window > 0 {
		e.sharer = fanout.New(fanout.Options{Window: window, Budget: e.Budget, Clock: clock.Now})
		e.Streams = e.sharer.Over(e.Loader)
	}
}

// Observe adds metrics of the engine's parts, and lets their failures be logged. It must be called
// at most once.
func (e *Engine) Observe(metrics *telemetry.Metrics, log *slog.Logger) {
	metrics.Budget(e.Budget)
	metrics.Storage(e.calls)
	metrics.Spool(e.server.SpoolLimit, e.disk.Stats)
	e.Tables.observe(metrics, log)
	if e.chunks != nil {
		metrics.Cache(telemetry.CacheSource{Columns: e.chunks.Stats, Hits: e.chunks.Hits, Sides: e.Loader.KeptBuildSides})
	}
	if e.sharer != nil {
		metrics.Sharing(e.sharer.Stats)
		e.sharer.LogTo(log)
	}
}

// readAhead converts the setting read_ahead to the option of package scan. A setting of 0 turns
// reading ahead off.
func readAhead(bytes int64) int64 {
	if bytes == 0 {
		return scan.NoAhead
	}
	return bytes
}

// strategies returns the custom join strategies, which datasets name as custom:NAME. Custom builds
// of Penstock add their strategies here (docs/custom.md).
func strategies() map[string]joiner.Custom { return nil }

// Close closes the parts of the engine in the reverse order of their creation. All streams must be
// released first.
func (e *Engine) Close() {
	for _, closer := range slices.Backward(e.closers) {
		closer()
	}
	e.closers = nil
}

// Prepare prepares the engine for a server. It calls Observe, bounds the memory that one client may
// use, and opens the exporter of traces and the cache on disk.
func (e *Engine) Prepare(ctx context.Context, s config.Server, metrics *telemetry.Metrics, log *slog.Logger) error {
	e.Observe(metrics, log)
	e.Budget.SetPeerShare(s.MaxPeerShare)
	if err := e.openTraces(s, metrics, log); err != nil { //nolint:contextcheck // traces are sent until Close
		return err
	}
	return e.openColumns(ctx, s, metrics, log)
}

// TrySpool checks that the spool can be written. A server calls it when it starts, because the
// first stream that spills may run days later. Commands that read in process do not call it,
// because they need the spool only if they spill. If the spool has no room, TrySpool only logs a
// warning: there may be room later, and joins that fit in memory do not use the spool.
func (e *Engine) TrySpool(log *slog.Logger) error { return trySpool(e.disk, log) }

// trySpool implements TrySpool for any spool.
func trySpool(disk interface{ Try() error }, log *slog.Logger) error {
	err := disk.Try()
	if fault.KindOf(err) == fault.Exhausted {
		log.Warn("joins that do not fit in memory fail until the spool has room", "error", err)
		return nil
	}
	return err
}

// Sharing describes which streams share batches, among the streams whose plans have the given
// TablesID (plan.Plan.TablesID). It returns "" if no such stream is open.
func (e *Engine) Sharing(tablesID string) string { return e.sharer.Explain(tablesID) }

// ReturnIdleMemory runs until ctx ends, and returns the unused memory of ended streams to the
// system.
func (e *Engine) ReturnIdleMemory(ctx context.Context) { newIdleMemory(e.pools).run(ctx) }
