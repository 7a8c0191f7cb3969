package engine

import (
	"context"
	"fmt"
	"strings"

	"github.com/penstock/penstock/flight"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/plan"
	"github.com/penstock/penstock/loader/scan/chunkcache"
)

// keptColumns implements flight.CacheAdmin for the cached columns and build sides of an engine.
type keptColumns struct {
	columns *chunkcache.ColumnCache
	loader  *loader.Loader
	disk    *columnDisk
	parts   *keptParts
}

// CacheAdmin returns the cache administration of the engine, or nil if the engine caches nothing.
func (e *Engine) CacheAdmin() flight.CacheAdmin {
	if e.chunks == nil {
		return nil
	}
	return keptColumns{columns: e.chunks, loader: e.Loader, disk: &e.columns, parts: &e.parts}
}

// List implements flight.CacheAdmin.
func (k keptColumns) List() flight.CacheList {
	columns, sides := k.columns.Stats(), k.loader.KeptBuildSides()
	out := flight.CacheList{
		Limit: columns.Limit, Bytes: columns.Bytes, NoRoom: columns.Evicted + columns.Passed, Files: []flight.CachedFile{},
		BuildSides: flight.KeptSidesList{Count: sides.Values, Bytes: sides.Bytes}, Disk: k.disk.list(),
	}
	for _, f := range k.columns.List() {
		out.Files = append(out.Files, flight.CachedFile{
			Table: f.Table, File: f.File, Columns: f.Columns, Bytes: f.Bytes, Hits: f.Hits, Seconds: f.Saved.Seconds(),
		})
	}
	return out
}

// Statistics implements flight.CacheAdmin.
func (k keptColumns) Statistics(ctx context.Context) (flight.StatisticsOnDisk, error) {
	return k.parts.list(ctx)
}

// Drop implements flight.CacheAdmin. Columns on disk are stored under the uuid of their table, not
// its name. Drop looks up the uuid in memory and in the catalog, because after a restart, columns
// may be on disk whose table is not known in memory. table may also be a uuid, for a table that no
// longer exists.
func (k keptColumns) Drop(ctx context.Context, table string) (out flight.CacheDropped, err error) {
	add := func(columns int, bytes int64) { out.Columns, out.Bytes = out.Columns+columns, out.Bytes+bytes }
	if table == "" {
		add(k.columns.Drop(""))
		add(k.disk.drop(ctx))
		out.Bytes += k.loader.DropKeptBuildSides()
		bytes, err := k.parts.drop(ctx, nil)
		out.Bytes += bytes
		return out, err
	}
	uuids := map[string]bool{table: true}
	for _, uuid := range k.columns.UUIDs(table) {
		uuids[uuid] = true
	}
	uuid, missing := k.loader.TableUUID(ctx, table)
	if missing == nil {
		uuids[uuid] = true
	}
	for one := range uuids {
		add(k.columns.Drop(one))
	}
	columns, bytes, err := k.disk.dropTables(ctx, uuids)
	add(columns, bytes)
	if err == nil {
		bytes, err = k.parts.drop(ctx, uuids)
		out.Bytes += bytes
	}
	if err == nil && out.Columns == 0 && out.Bytes == 0 && missing != nil {
		err = fault.Op(missing, "drop the cached columns of table %s", table)
	}
	return out, err
}

// Warm implements flight.CacheAdmin.
func (k keptColumns) Warm(p *plan.Plan) string {
	tables := []*catalog.Table{p.Relation.Training}
	for _, s := range p.Relation.Staging {
		tables = append(tables, s.Pinned)
	}
	var b strings.Builder
	seen := map[string]bool{}
	for _, t := range tables {
		if seen[t.Pin.UUID] {
			continue
		}
		seen[t.Pin.UUID] = true
		if files, columns, bytes := k.columns.Warm(t.Pin.UUID); columns > 0 {
			fmt.Fprintf(&b, "  %s: %d columns of row groups, of %d files, %s\n", t.Name, columns, files, fault.Size(bytes))
		}
	}
	if b.Len() == 0 {
		return ""
	}
	return "decoded columns in memory\n" + b.String()
}
