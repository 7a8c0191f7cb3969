package engine

import (
	"context"
	"log/slog"
	"math"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/penstock/penstock/cache/disk"
	"github.com/penstock/penstock/flight"
	"github.com/penstock/penstock/internal/clock"
	"github.com/penstock/penstock/internal/config"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/store"
	"github.com/penstock/penstock/internal/telemetry"
	"github.com/penstock/penstock/loader/scan/chunkcache"
)

const (
	// columnTimeout is the time limit of a call to the disk of `cache_dir`. If the disk is slower
	// than that, it is faster to decode the columns again.
	columnTimeout = 5 * time.Second
	// Columns that wait to be written to disk may take 1/columnQueueDivisor of the memory budget.
	columnQueueDivisor = 16
	// columnDrain is how long a server continues to write waiting columns while it shuts down.
	columnDrain = 2 * time.Second
)

// columnDisk is the disk tier of the cache of decoded columns. It is empty if `cache_dir` is not
// set, and in commands that read in process. It is safe for concurrent use.
type columnDisk struct{ tier atomic.Pointer[disk.Tier] }

var _ chunkcache.Disk = (*columnDisk)(nil)

// columnID returns the identity of a column on disk. A column that was decoded from pages without
// checksums has a different identity, because it must not be used if `require_checksums` is set.
func columnID(of chunkcache.ChunkID, unchecked bool) disk.ColumnID {
	id := disk.ColumnID(of)
	if unchecked {
		id.Type += " of pages without checksums"
	}
	return id
}

// Get implements chunkcache.Disk.
func (d *columnDisk) Get(ctx context.Context, of chunkcache.ChunkID, want chunkcache.Wanted) (*chunkcache.StoredColumn, bool) {
	tier := d.tier.Load()
	if tier == nil {
		return nil, false
	}
	unchecked := tier.Has(columnID(of, true))
	c, ok := tier.Get(ctx, columnID(of, unchecked), disk.WantedChunk{Types: want.Types, Rows: want.Rows, Reserve: want.Reserve})
	if !ok {
		return nil, false
	}
	return &chunkcache.StoredColumn{Arrays: c.Arrays, Held: c.Held, Cost: time.Duration(c.Cost) * time.Microsecond, Unchecked: unchecked}, true
}

// Put implements chunkcache.Disk.
func (d *columnDisk) Put(of chunkcache.ChunkID, values chunkcache.StoredColumn, done func()) {
	tier := d.tier.Load()
	if tier == nil {
		done()
		return
	}
	cost := uint32(min(max(values.Cost.Microseconds(), 0), math.MaxUint32)) //nolint:gosec // it is in range
	tier.Put(disk.Offer{ID: columnID(of, values.Unchecked), Arrays: values.Arrays, Cost: cost, Done: done})
}

// giveUp drops the columns that wait to be written. The budget calls it when memory is short.
func (d *columnDisk) giveUp(int64) {
	if tier := d.tier.Load(); tier != nil {
		tier.DropQueued()
	}
}

// list returns the number and size of the columns on disk, and the size limit.
func (d *columnDisk) list() flight.ColumnsOnDisk {
	tier := d.tier.Load()
	if tier == nil {
		return flight.ColumnsOnDisk{}
	}
	of := tier.Stats().Folder
	return flight.ColumnsOnDisk{Columns: of.Chunks, Bytes: of.Bytes, Limit: of.Limit}
}

// drop deletes all columns on disk.
func (d *columnDisk) drop(ctx context.Context) (columns int, bytes int64) {
	tier := d.tier.Load()
	if tier == nil {
		return 0, 0
	}
	return tier.DropAll(ctx)
}

// dropTables deletes the columns of the tables with the given uuids from disk.
func (d *columnDisk) dropTables(ctx context.Context, uuids map[string]bool) (columns int, bytes int64, err error) {
	tier := d.tier.Load()
	if tier == nil {
		return 0, 0, nil
	}
	return tier.DropTables(ctx, uuids)
}

// openColumns opens the folder that `cache_dir` names, if it is set. If another server uses the
// folder, or if the disk fails, the server runs without a cache on disk.
func (e *Engine) openColumns(ctx context.Context, s config.Server, metrics *telemetry.Metrics, log *slog.Logger) error {
	if s.CacheDir == "" {
		return nil
	}
	folder, err := filepath.Abs(s.CacheDir)
	if err != nil {
		return fault.New(fault.Invalid, "cache_dir %s: %w", s.CacheDir, err)
	}
	tier, err := disk.Open(ctx, disk.Options{
		Folder: folder, Limit: s.CacheDisk - partsBytes(s), Queue: s.Memory / columnQueueDivisor, Memory: e.memory, Budget: e.Budget,
		Calls: store.NewCalls(store.Options{Timeout: columnTimeout, Clock: clock.Now}), Clock: clock.Now, Log: log,
	})
	if fault.KindOf(err) == fault.Invalid {
		return err
	}
	if err != nil {
		log.Warn("decoded columns are not kept on disk", "error", err)
		return nil
	}
	e.columns.tier.Store(tier)
	e.closers = append(e.closers, func() {
		ending, end := context.WithTimeout(context.WithoutCancel(ctx), columnDrain)
		defer end()
		tier.Close(ending)
	})
	metrics.DiskTier(tier.Stats)
	return nil
}
