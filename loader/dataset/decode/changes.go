package decode

import (
	"cmp"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/penstock/penstock/internal/fault"
)

// Bounds of the fields of changes.
const (
	minFileBytes = 1 << 20
	minMinFiles  = 2 // a single file cannot be compacted into fewer files
	// A file is written before a snapshot refers to it. A file that is younger than minOrphanAge
	// may therefore belong to a write that is still running.
	defaultOrphanAge = OrphanAge(3 * 24 * time.Hour)
	minOrphanAge     = time.Hour
	maxTables        = 1000 // tables in one call
	maxShown         = 80   // maximum bytes of a quoted text in a message
)

// CompactCommand is the body of the action compact, as JSON.
type CompactCommand struct {
	Table     string   `json:"table"`
	Branch    string   `json:"branch,omitempty"` // "": main
	Partition []string `json:"partition,omitempty"`
	Key       []string `json:"key,omitempty"`
	AnyOrder  bool     `json:"any_order,omitempty"`
	MinFiles  int      `json:"min_files,omitempty"` // 0: the default
	FileSize  int64    `json:"file_size,omitempty"` // bytes; 0: the default
	DryRun    bool     `json:"dry_run,omitempty"`
	Progress  bool     `json:"progress,omitempty"` // whether messages report how far the call is
}

// Compact decodes the body of the action compact.
func Compact(text []byte) (CompactCommand, error) {
	return command(text, []field[CompactCommand]{
		{name: "table", must: true, read: func(d *decoder, at place, out *CompactCommand) { out.Table = d.table(at) }},
		{name: "branch", also: []string{"ref"}, read: func(d *decoder, at place, out *CompactCommand) { out.Branch = d.name(at) }},
		{name: "partition", read: func(d *decoder, at place, out *CompactCommand) { out.Partition = d.names(at) }},
		{name: "key", read: func(d *decoder, at place, out *CompactCommand) { out.Key = d.key(at) }},
		{name: "any_order", read: func(d *decoder, at place, out *CompactCommand) { out.AnyOrder = d.truth(at) }},
		{name: "min_files", read: func(d *decoder, at place, out *CompactCommand) {
			out.MinFiles = int(d.whole(at, minMinFiles, math.MaxInt32))
		}},
		{name: "file_size", read: func(d *decoder, at place, out *CompactCommand) { out.FileSize = d.whole(at, minFileBytes, maxInt64) }},
		{name: "dry_run", read: func(d *decoder, at place, out *CompactCommand) { out.DryRun = d.truth(at) }},
		{name: "progress", read: func(d *decoder, at place, out *CompactCommand) { out.Progress = d.truth(at) }},
	})
}

// RestoreCommand is the body of the action restore, as JSON.
type RestoreCommand struct {
	Table     string   `json:"table"`
	Snapshot  int64    `json:"snapshot"`
	Branch    string   `json:"branch,omitempty"` // "": main
	Partition []string `json:"partition,omitempty"`
	Token     string   `json:"token,omitempty"`
	// AllowDuplicates restores partitions even if rows outside of these partitions have the same
	// keys.
	AllowDuplicates bool `json:"allow_duplicates,omitempty"`
	DryRun          bool `json:"dry_run,omitempty"`
	NoCheck         bool `json:"no_check,omitempty"` // whether the datasets that read the table are not checked
	Progress        bool `json:"progress,omitempty"` // whether messages report how far the call is
}

// Restore decodes the body of the action restore.
func Restore(text []byte) (RestoreCommand, error) {
	return command(text, []field[RestoreCommand]{
		{name: "table", must: true, read: func(d *decoder, at place, out *RestoreCommand) { out.Table = d.table(at) }},
		{name: "snapshot", must: true, read: func(d *decoder, at place, out *RestoreCommand) { out.Snapshot = d.snapshotID(at, 1) }},
		{name: "branch", also: []string{"ref"}, read: func(d *decoder, at place, out *RestoreCommand) { out.Branch = d.name(at) }},
		{name: "partition", read: func(d *decoder, at place, out *RestoreCommand) { out.Partition = d.names(at) }},
		{name: "token", read: func(d *decoder, at place, out *RestoreCommand) { out.Token = d.name(at) }},
		{name: "allow_duplicates", read: func(d *decoder, at place, out *RestoreCommand) { out.AllowDuplicates = d.truth(at) }},
		{name: "dry_run", read: func(d *decoder, at place, out *RestoreCommand) { out.DryRun = d.truth(at) }},
		{name: "no_check", read: func(d *decoder, at place, out *RestoreCommand) { out.NoCheck = d.truth(at) }},
		{name: "progress", read: func(d *decoder, at place, out *RestoreCommand) { out.Progress = d.truth(at) }},
	})
}

// OrphansCommand is the body of the action orphans, as JSON.
type OrphansCommand struct {
	Tables    []string  `json:"tables"`
	OlderThan OrphanAge `json:"older_than,omitempty"` // minimum age of orphan files
	Remove    bool      `json:"remove,omitempty"`
	Progress  bool      `json:"progress,omitempty"` // whether messages report how far the call is
}

// Orphans decodes the body of the action orphans.
func Orphans(text []byte) (OrphansCommand, error) {
	out, err := command(text, []field[OrphansCommand]{
		{name: "tables", must: true, read: func(d *decoder, at place, out *OrphansCommand) { out.Tables = readTables(d, at) }},
		{name: "older_than", read: func(d *decoder, at place, out *OrphansCommand) { out.OlderThan = readOrphanAge(d, at) }},
		{name: "remove", read: func(d *decoder, at place, out *OrphansCommand) { out.Remove = d.truth(at) }},
		{name: "progress", read: func(d *decoder, at place, out *OrphansCommand) { out.Progress = d.truth(at) }},
	})
	out.OlderThan = cmp.Or(out.OlderThan, defaultOrphanAge)
	return out, err
}

// OrphanAge is the minimum time since an orphan file was written.
type OrphanAge time.Duration

// MarshalText implements encoding.TextMarshaler.
func (a OrphanAge) MarshalText() ([]byte, error) { return []byte(time.Duration(a).String()), nil }

// ParseOrphanAge parses an age: a number of days, such as 7d, or a duration such as 12h or 1h30m. "" is the default.
func ParseOrphanAge(text string) (OrphanAge, error) {
	if text == "" {
		return defaultOrphanAge, nil
	}
	age, err := time.ParseDuration(text)
	if days, ok := strings.CutSuffix(text, "d"); ok {
		var n uint64
		n, err = strconv.ParseUint(days, 10, 16)
		age = time.Duration(n) * 24 * time.Hour //nolint:gosec // at most 65535
	}
	if err != nil || age < minOrphanAge {
		return 0, fault.New(fault.Invalid, "%q is not an age of at least 1h, such as 12h or 7d", fault.Shorten(text, maxShown))
	}
	return OrphanAge(age), nil
}

// readOrphanAge decodes the age of orphan files.
func readOrphanAge(d *decoder, at place) OrphanAge {
	out, err := ParseOrphanAge(d.name(at))
	if err != nil {
		d.fail(at.path, "%s", fault.As(err).Message)
	}
	return out
}

// EarlierPromotion is what to do with an unfinished promotion of the same entries.
type EarlierPromotion string

// The choices. If none is given, an unfinished promotion of the same snapshots continues, and an
// unfinished promotion of other snapshots is a conflict.
const (
	ContinuePromotion EarlierPromotion = "continue" // continue it with the values of its snapshots
	RestartPromotion  EarlierPromotion = "restart"  // begin again with the current snapshots
)

// PromoteCommand is the body of the action promote, as JSON.
type PromoteCommand struct {
	Dataset  string           `json:"dataset"`
	Entries  []string         `json:"entries"`
	Earlier  EarlierPromotion `json:"earlier,omitempty"`
	DryRun   bool             `json:"dry_run,omitempty"`
	NoCheck  bool             `json:"no_check,omitempty"` // whether the datasets that read the table are not checked
	Progress bool             `json:"progress,omitempty"` // whether messages report how far the call is
}

// Promote decodes the body of the action promote.
func Promote(text []byte) (PromoteCommand, error) {
	return command(text, []field[PromoteCommand]{
		{name: "dataset", must: true, read: func(d *decoder, at place, out *PromoteCommand) { out.Dataset = d.name(at) }},
		{name: "entries", must: true, read: func(d *decoder, at place, out *PromoteCommand) { out.Entries = d.names(at) }},
		{name: "earlier", read: func(d *decoder, at place, out *PromoteCommand) {
			out.Earlier = choice(d, at, []EarlierPromotion{ContinuePromotion, RestartPromotion})
		}},
		{name: "dry_run", read: func(d *decoder, at place, out *PromoteCommand) { out.DryRun = d.truth(at) }},
		{name: "no_check", read: func(d *decoder, at place, out *PromoteCommand) { out.NoCheck = d.truth(at) }},
		{name: "progress", read: func(d *decoder, at place, out *PromoteCommand) { out.Progress = d.truth(at) }},
	})
}

// DemoteCommand is the body of the action demote, as JSON.
type DemoteCommand struct {
	Table    string   `json:"table"`
	Columns  []string `json:"columns"`
	DryRun   bool     `json:"dry_run,omitempty"`
	NoCheck  bool     `json:"no_check,omitempty"` // whether the datasets that read the table are not checked
	Progress bool     `json:"progress,omitempty"` // whether messages report how far the call is
}

// Demote decodes the body of the action demote.
func Demote(text []byte) (DemoteCommand, error) {
	return command(text, []field[DemoteCommand]{
		{name: "table", must: true, read: func(d *decoder, at place, out *DemoteCommand) { out.Table = d.table(at) }},
		{name: "columns", must: true, read: func(d *decoder, at place, out *DemoteCommand) { out.Columns = d.names(at) }},
		{name: "dry_run", read: func(d *decoder, at place, out *DemoteCommand) { out.DryRun = d.truth(at) }},
		{name: "no_check", read: func(d *decoder, at place, out *DemoteCommand) { out.NoCheck = d.truth(at) }},
		{name: "progress", read: func(d *decoder, at place, out *DemoteCommand) { out.Progress = d.truth(at) }},
	})
}

// readTables decodes a list of table names without duplicates.
func readTables(d *decoder, at place) []string {
	out := list(d, at, maxTables, (*decoder).table)
	if at.kind == kindList && len(at.items) == 0 {
		d.fail(at.path, "the list is empty; name a table")
	}
	for i, name := range out {
		for _, other := range out[:i] {
			if name != "" && name == other {
				d.fail(at.path+indexed(i), "table %s is given twice", fault.Shorten(name, maxShown))
			}
		}
	}
	return out
}

// command decodes the body of an action.
func command[T any](text []byte, fields []field[T]) (T, error) {
	return parse(text, "body", func(d *decoder, at place) T {
		var out T
		object(d, at, &out, fields)
		return out
	})
}
