package engine

import (
	"context"
	"path/filepath"
	"sync"

	"github.com/penstock/penstock/cache/disk"
	"github.com/penstock/penstock/flight"
	"github.com/penstock/penstock/internal/clock"
	"github.com/penstock/penstock/internal/config"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/store"
)

const (
	// partsFolder is the folder inside `cache_dir` with the parts that statistics are made of. It is apart from the columns, so
	// that a command can use it while a server uses the columns.
	partsFolder = "statistics"
	// Parts may take 1/partsDivisor of `cache_disk`, and columns the rest.
	partsDivisor = 16
)

// partsBytes returns how many bytes of `cache_disk` are for parts.
func partsBytes(s config.Server) int64 { return s.CacheDisk / partsDivisor }

// keptParts is the folder of parts. It is open while a call uses it, so that commands and servers can take turns. It is safe for concurrent use.
type keptParts struct {
	engine *Engine

	mu    sync.Mutex
	tier  *disk.Tier // nil: it is closed
	users int
}

// open opens the folder for a call, which must call close. It returns nil if `cache_dir` is not set, and Conflict if another process uses the
// folder.
func (k *keptParts) open(ctx context.Context) (*disk.Tier, error) {
	if k.engine.server.CacheDir == "" {
		return nil, nil //nolint:nilnil // the caller then keeps no parts
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.tier == nil {
		tier, err := k.engine.openParts(ctx)
		if err != nil {
			return nil, err
		}
		k.tier = tier
	}
	k.users++
	return k.tier, nil
}

// close ends the use of the folder by a call.
func (k *keptParts) close(ctx context.Context) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.users--; k.users > 0 {
		return
	}
	ending, end := context.WithTimeout(context.WithoutCancel(ctx), columnDrain)
	defer end()
	k.tier.Close(ending)
	k.tier = nil
}

// drop deletes the parts of the tables with the given uuids, or all parts if uuids is nil, and returns their bytes.
func (k *keptParts) drop(ctx context.Context, uuids map[string]bool) (bytes int64, err error) {
	tier, err := k.open(ctx)
	if tier == nil {
		return 0, err
	}
	defer k.close(ctx)
	if uuids == nil {
		_, bytes = tier.DropAll(ctx)
		return bytes, nil
	}
	_, bytes, err = tier.DropTables(ctx, uuids)
	return bytes, err
}

// list counts the parts.
func (k *keptParts) list(ctx context.Context) (flight.StatisticsOnDisk, error) {
	tier, err := k.open(ctx)
	if tier == nil {
		return flight.StatisticsOnDisk{}, err
	}
	defer k.close(ctx)
	of := tier.Stats().Folder
	return flight.StatisticsOnDisk{Files: of.Chunks, Bytes: of.Bytes, Limit: of.Limit}, nil
}

// openParts opens the folder of parts.
func (e *Engine) openParts(ctx context.Context) (*disk.Tier, error) {
	folder, err := filepath.Abs(e.server.CacheDir)
	if err != nil {
		return nil, fault.New(fault.Invalid, "cache_dir %s: %w", e.server.CacheDir, err)
	}
	return disk.Open(ctx, disk.Options{
		Folder: folder, Name: partsFolder, Limit: partsBytes(e.server), Queue: e.server.Memory / columnQueueDivisor, Memory: e.memory, Budget: e.Budget,
		Calls: store.NewCalls(store.Options{Timeout: columnTimeout, Clock: clock.Now}), Clock: clock.Now,
	})
}
