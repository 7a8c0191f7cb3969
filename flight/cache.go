package flight

import (
	"context"
	"encoding/json"

	"github.com/penstock/penstock/flight/call"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/jsontext"
	"github.com/penstock/penstock/loader/plan"
)

// CacheAdmin lists and drops the columns and build sides that a server keeps for later streams.
type CacheAdmin interface {
	List() CacheList
	// Drop drops the decoded columns of a table in memory and on disk. table is its name or uuid;
	// if it is "", Drop drops everything that is kept. After an error, some columns may not have
	// been dropped.
	Drop(ctx context.Context, table string) (CacheDropped, error)
	// Warm describes, for a plan's explain text, what is kept of the plan's tables; it returns ""
	// if nothing is kept.
	Warm(p *plan.Plan) string
}

// CacheList is what a server keeps for later streams.
type CacheList struct {
	Limit      int64         `json:"limit"` // bytes of decoded columns
	Bytes      int64         `json:"bytes"` // of decoded columns
	Files      []CachedFile  `json:"files"` // with decoded columns, by table and file
	BuildSides KeptSidesList `json:"build_sides"`
	Disk       ColumnsOnDisk `json:"disk"`
}

// ColumnsOnDisk is the decoded columns on local disk.
type ColumnsOnDisk struct {
	Columns int   `json:"columns"` // of row groups
	Bytes   int64 `json:"bytes"`   // of their files
	Limit   int64 `json:"limit"`   // 0: none are kept on disk
}

// KeptSidesList is the build sides that are kept.
type KeptSidesList struct {
	Count int64 `json:"count"`
	Bytes int64 `json:"bytes"`
}

// CachedFile is what is cached of a file.
type CachedFile struct {
	Table   string  `json:"table"`
	File    string  `json:"file"`    // its path within the table
	Columns int     `json:"columns"` // of row groups
	Bytes   int64   `json:"bytes"`
	Hits    int64   `json:"hits"`    // columns that streams read from memory
	Seconds float64 `json:"seconds"` // the time that decoding the columns once takes
}

// CacheDropped is what was dropped.
type CacheDropped struct {
	Columns int   `json:"columns"` // of row groups
	Bytes   int64 `json:"bytes"`   // of columns, build sides and files
}

func (s *service) listCache(context.Context, *call.Call, []byte) ([]byte, error) {
	return jsontext.Of(s.options.Cache.List()), nil
}

func (s *service) dropCache(ctx context.Context, _ *call.Call, body []byte) ([]byte, error) {
	var asked struct {
		Table string `json:"table"`
	}
	if len(body) > 0 {
		if err := json.Unmarshal(body, &asked); err != nil {
			return nil, fault.New(fault.Invalid, "the body is not a JSON object with a table: %w", err)
		}
	}
	dropped, err := s.options.Cache.Drop(ctx, asked.Table)
	if err != nil {
		return nil, err
	}
	return jsontext.Of(dropped), nil
}
