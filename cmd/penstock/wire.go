package main

import (
	"context"
	"errors"
	"maps"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/penstock/penstock/cache"
	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/config"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/parquet"
	"github.com/penstock/penstock/internal/spool"
	"github.com/penstock/penstock/internal/store"
	"github.com/penstock/penstock/joiner"
	"github.com/penstock/penstock/joiner/spill"
	"github.com/penstock/penstock/loader"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/catalog/icebergcat"
	"github.com/penstock/penstock/loader/catalog/pintag"
	"github.com/penstock/penstock/loader/plan"
	"github.com/penstock/penstock/loader/scan"
)

// What is remembered of plans and of files' footers, each, in bytes: one part
// in so many of the memory budget, and no more than so much; of manifests half of
// that. It comes on top of the budget.
const (
	rememberedShare = 32
	rememberedMost  = 128 << 20
)

// engine is all that reads: what serve serves, and cat reads in process.
type engine struct {
	*loader.Loader
	budget    *budget.Budget
	calls     *store.Calls
	plans     *loader.Plans
	footers   *cache.Cache[*parquet.Footer]
	manifests *cache.Cache[[]byte]
	catalogs  []*icebergcat.Catalog
	requests  atomic.Pointer[func(store.Request)] // observes requests to remote storage; nil: nothing does
	tags      []*pintag.Tags
	looks     atomic.Pointer[func(pintag.Look)] // is told of looks at tags; nil: nobody is
	endRenew  func()                            // ends what renews tags, and waits for it
	pools     []batch.Trimming
	disk      *spool.Spool
}

// assemble puts the parts together: the one place that names them.
func assemble(ctx context.Context, c *config.Config) (_ *engine, err error) {
	keep := kept(c.Server.Memory)
	memory, scratch := batch.NewBoundedAllocator(keep), batch.NewBoundedAllocator(keep)
	e := &engine{
		budget: budget.New(c.Server.Memory),
		calls:  store.NewCalls(store.Options{Timeout: c.Server.StorageTimeout, Clock: time.Now}),
		pools:  []batch.Trimming{memory, scratch},
	}
	files := store.NewBounded(store.Local{}, e.calls)
	defer func() {
		if err != nil {
			e.Close()
		}
	}()
	remembered := min(c.Server.Memory/rememberedShare, rememberedMost)
	if e.manifests, err = cache.New[[]byte](remembered / 2); err != nil {
		return nil, err
	}
	catalogs, err := e.open(ctx, c, files)
	if err != nil {
		return nil, err
	}
	if e.footers, err = cache.New[*parquet.Footer](remembered); err != nil {
		return nil, err
	}
	if e.plans, err = loader.NewPlans(remembered); err != nil {
		return nil, err
	}
	scanner, err := scan.New(scan.Options{
		Files: catalogs, Footers: e.footers, MaxFooter: c.Server.MaxMetadata, Memory: memory, Scratch: scratch, Budget: e.budget,
		RequireChecksums: c.Server.RequireChecksums,
		ReadTail:         c.Server.ReadTail, ReadGap: c.Server.ReadGap, ReadSize: c.Server.ReadSize, ReadAhead: readAhead(c.Server.ReadAhead),
	})
	if err != nil {
		return nil, err
	}
	e.disk, err = spool.Open(spool.Options{Place: c.Server.Spool, Limit: c.Server.SpoolLimit, Memory: memory})
	if err != nil {
		return nil, err
	}
	e.Loader = loader.New(loader.Options{
		Strategies: strategies(),
		Disk: func(what string) (spill.Store, error) {
			file, err := e.disk.Create(what)
			if err != nil {
				return nil, err
			}
			return file, nil
		},
		Hold:     catalogs.Hold,
		Datasets: c.Datasets, Catalog: catalogs, Plans: e.plans, Budget: e.budget, Memory: memory,
		MaxBatchBytes: c.Server.BatchBytes(),
		Scan: func(ctx context.Context, source plan.Source, columns []catalog.Field) (loader.Rows, error) {
			rows, err := scanner.Open(ctx, source, columns)
			if err != nil {
				return nil, err
			}
			return rows, nil
		},
		Keep: scanner.Keep,
	})
	e.renew(ctx)
	return e, nil
}

// readAhead says in scan's terms that nothing is read ahead.
func readAhead(bytes int64) int64 {
	if bytes == 0 {
		return scan.NoAhead
	}
	return bytes
}

// strategies are the custom ones that datasets may name, as custom:NAME. A
// build of Penstock with strategies of its own adds them here (docs/custom.md).
func strategies() map[string]joiner.Custom { return nil }

// open opens every catalog, and says of all of them what is wrong.
func (e *engine) open(ctx context.Context, c *config.Config, files store.Store) (*catalog.Set, error) {
	opened := map[string]catalog.Catalog{}
	var failures []error
	for _, name := range slices.Sorted(maps.Keys(c.Catalogs)) {
		one, err := e.openCatalog(ctx, c, c.Catalogs[name], files)
		if err != nil {
			failures = append(failures, fault.Op(unechoed(err, c.Catalogs[name].Stored), "%s: open catalog %s", c.File, name))
			continue
		}
		e.catalogs = append(e.catalogs, one)
		if opened[name], err = e.held(one, c.Catalogs[name]); err != nil {
			failures = append(failures, fault.Op(err, "%s: catalog %s", c.File, name))
		}
	}
	if len(failures) > 0 {
		return nil, together(failures)
	}
	return catalog.NewSet(opened, c.DefaultCatalog())
}

// unechoed takes the catalog's name from the beginning of a failure, which says it again.
func unechoed(err error, name string) error {
	if e := (*fault.Error)(nil); errors.As(err, &e) {
		out := *e
		out.Message = strings.TrimPrefix(out.Message, "catalog "+name+": ")
		return &out
	}
	return err
}

// together makes one failure of several, of the first one's kind.
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

// Close gives back what the engine holds. Its streams have been released.
func (e *engine) Close() {
	if e.endRenew != nil {
		e.endRenew()
	}
	if e.plans != nil {
		e.plans.Close()
	}
	if e.footers != nil {
		e.footers.Close()
	}
	if e.manifests != nil {
		e.manifests.Close()
	}
	for _, c := range e.catalogs {
		c.Close()
	}
}

// load reads the configuration that a command line names.
func (p process) load(file string, flags map[string]string) (*config.Config, error) {
	return config.Load(config.Origin{
		File: file, Env: p.env, Flags: flags, Memory: machineMemory(), Storage: stores(store.Environment{}).Properties(),
	})
}

func machineMemory() int64 { return config.MachineMemory(os.DirFS("/")) }
