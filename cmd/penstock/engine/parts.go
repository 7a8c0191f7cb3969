package engine

import (
	"context"
	"path/filepath"
	"time"

	"github.com/penstock/penstock/cache/disk"
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

// openParts opens the folder of parts, which the caller closes. It returns nil if `cache_dir` is not set, and Conflict if another
// process uses the folder.
func (e *Engine) openParts(ctx context.Context) (*disk.Tier, error) {
	if e.server.CacheDir == "" {
		return nil, nil //nolint:nilnil // the caller then keeps no parts
	}
	folder, err := filepath.Abs(e.server.CacheDir)
	if err != nil {
		return nil, fault.New(fault.Invalid, "cache_dir %s: %w", e.server.CacheDir, err)
	}
	return disk.Open(ctx, disk.Options{
		Folder: folder, Name: partsFolder, Limit: partsBytes(e.server), Queue: e.server.Memory / columnQueueDivisor, Memory: e.memory, Budget: e.Budget,
		Calls: store.NewCalls(store.Options{Timeout: columnTimeout, Clock: time.Now}), Clock: time.Now,
	})
}

// closeParts closes the folder of parts.
func closeParts(ctx context.Context, tier *disk.Tier) {
	ending, end := context.WithTimeout(context.WithoutCancel(ctx), columnDrain)
	defer end()
	tier.Close(ending)
}

// dropParts deletes the parts of the tables with the given uuids, or all parts if uuids is nil, and returns their bytes.
func (e *Engine) dropParts(ctx context.Context, uuids map[string]bool) (bytes int64, err error) {
	tier, err := e.openParts(ctx)
	if tier == nil {
		return 0, err
	}
	defer closeParts(ctx, tier)
	if uuids == nil {
		_, bytes = tier.DropAll(ctx)
		return bytes, nil
	}
	_, bytes, err = tier.DropTables(ctx, uuids)
	return bytes, err
}
