package main

import (
	"fmt"
	"strings"

	"github.com/penstock/penstock/flight"
	"github.com/penstock/penstock/loader"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/plan"
	"github.com/penstock/penstock/loader/scan/chunkcache"
)

// keptColumns lists what an engine keeps for later streams, as a flight.CacheAdmin.
type keptColumns struct {
	columns *chunkcache.ColumnCache
	loader  *loader.Loader
	disk    *columnDisk
}

// cacheAdmin returns the engine's, or nil if it keeps nothing.
func (e *engine) cacheAdmin() flight.CacheAdmin {
	if e.chunks == nil {
		return nil
	}
	return keptColumns{columns: e.chunks, loader: e.loader, disk: &e.columns}
}

// List implements flight.CacheAdmin.
func (k keptColumns) List() flight.CacheList {
	columns, sides := k.columns.Stats(), k.loader.KeptBuildSides()
	out := flight.CacheList{
		Limit: columns.Limit, Bytes: columns.Bytes, Files: []flight.CachedFile{},
		BuildSides: flight.KeptSidesList{Count: sides.Values, Bytes: sides.Bytes}, Disk: k.disk.list(),
	}
	for _, f := range k.columns.List() {
		out.Files = append(out.Files, flight.CachedFile{
			Table: f.Table, File: f.File, Columns: f.Columns, Bytes: f.Bytes, Hits: f.Hits, Seconds: f.Saved.Seconds(),
		})
	}
	return out
}

// Drop implements flight.CacheAdmin.
func (k keptColumns) Drop(table string) flight.CacheDropped {
	columns, bytes := k.columns.Drop(table)
	if table == "" {
		onDisk, inFiles := k.disk.drop()
		columns, bytes = columns+onDisk, bytes+inFiles+k.loader.DropKeptBuildSides()
	}
	return flight.CacheDropped{Columns: columns, Bytes: bytes}
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
			fmt.Fprintf(&b, "  %s: %d columns of row groups, of %d files, %d bytes\n", t.Name, columns, files, bytes)
		}
	}
	if b.Len() == 0 {
		return ""
	}
	return "decoded columns in memory\n" + b.String()
}
