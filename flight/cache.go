package flight

import (
	"context"

	"github.com/penstock/penstock/flight/access"
	"github.com/penstock/penstock/flight/call"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/jsontext"
	"github.com/penstock/penstock/loader/dataset/decode"
	"github.com/penstock/penstock/loader/plan"
)

// CacheAdmin lists and drops the columns and build sides that a server keeps for later streams.
type CacheAdmin interface {
	// List lists what is kept, without statistics.
	List() CacheList
	// Statistics counts the kept statistics of files. It returns Conflict while another process uses them.
	Statistics(ctx context.Context) (StatisticsOnDisk, error)
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
	Limit  int64        `json:"limit"` // bytes of decoded columns
	Bytes  int64        `json:"bytes"` // of decoded columns
	NoRoom int64        `json:"-"`     // columns of row groups that found no room, or made room for others
	Files  []CachedFile `json:"files"` // with decoded columns, by table and file
	// Others counts the files of tables whose snapshots the caller may not see: they are not in Files.
	Others     int           `json:"others,omitempty"`
	BuildSides KeptSidesList `json:"build_sides"`
	Disk       ColumnsOnDisk `json:"disk"`
	// Statistics are those of files that the calls of stats keep on local disk; nil: they are not known, because another process uses them.
	Statistics *StatisticsOnDisk `json:"statistics,omitempty"`
}

// StatisticsOnDisk is the kept statistics of data files.
type StatisticsOnDisk struct {
	Files int   `json:"files"` // each data file has one for each set of columns that was described
	Bytes int64 `json:"bytes"`
	Limit int64 `json:"limit"` // 0: none are kept
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

// listCache lists the files of tables whose snapshots the caller may see, and counts all others.
func (s *service) listCache(ctx context.Context, c *call.Call, _ []byte) ([]byte, error) {
	list := s.options.Cache.List()
	all, whole := list.Files, map[string]bool{}
	list.Files = []CachedFile{}
	for _, f := range all {
		may, known := whole[f.Table]
		if !known {
			may = s.guard.TableAccess(c, f.Table) == access.WholeTable
			whole[f.Table] = may
		}
		if may {
			list.Files = append(list.Files, f)
		} else {
			list.Others++
		}
	}
	switch kept, err := s.options.Cache.Statistics(ctx); {
	case err == nil:
		list.Statistics = &kept
	case fault.KindOf(err) != fault.Conflict:
		return nil, err
	}
	return jsontext.Of(list), nil
}

func (s *service) dropCache(ctx context.Context, _ *call.Call, body []byte) ([]byte, error) {
	asked, err := decode.CacheDrop(body)
	if err != nil {
		return nil, err
	}
	dropped, err := s.options.Cache.Drop(ctx, asked.Table)
	if err != nil {
		return nil, err
	}
	return jsontext.Of(dropped), nil
}
