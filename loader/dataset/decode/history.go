package decode

import "math"

// TablesCommand is the body of the action tables, as JSON.
type TablesCommand struct {
	Within string `json:"within,omitempty"` // a catalog, a namespace or a table; "": all
}

// Tables decodes the body of the action tables, which may be empty.
func Tables(text []byte) (TablesCommand, error) {
	if len(text) == 0 {
		return TablesCommand{}, nil
	}
	return command(text, []field[TablesCommand]{
		{name: "within", read: func(d *decoder, at place, out *TablesCommand) { out.Within = d.name(at) }},
	})
}

// CacheDropCommand is the body of the action cache_drop, as JSON.
type CacheDropCommand struct {
	Table string `json:"table,omitempty"` // its name or uuid; "": all tables
}

// CacheDrop decodes the body of the action cache_drop, which may be empty.
func CacheDrop(text []byte) (CacheDropCommand, error) {
	if len(text) == 0 {
		return CacheDropCommand{}, nil
	}
	return command(text, []field[CacheDropCommand]{
		{name: "table", read: func(d *decoder, at place, out *CacheDropCommand) { out.Table = d.name(at) }},
	})
}

// LogCommand is the body of the action log, as JSON.
type LogCommand struct {
	Table  string `json:"table"`
	Branch string `json:"branch,omitempty"` // or a tag; "": main
	Limit  int    `json:"limit,omitempty"`  // of the snapshots; 0: none
}

// Log decodes the body of the action log.
func Log(text []byte) (LogCommand, error) {
	return command(text, []field[LogCommand]{
		{name: "table", must: true, read: func(d *decoder, at place, out *LogCommand) { out.Table = d.table(at) }},
		{name: "branch", also: []string{"ref", "tag"}, read: func(d *decoder, at place, out *LogCommand) { out.Branch = d.name(at) }},
		{name: "limit", read: func(d *decoder, at place, out *LogCommand) { out.Limit = int(d.whole(at, 0, math.MaxInt32)) }},
	})
}

// DiffCommand is the body of the action diff, as JSON. Package tablediff describes its fields, under
// Request.
type DiffCommand struct {
	Table     string   `json:"table"`
	From      string   `json:"from,omitempty"`
	To        string   `json:"to,omitempty"`
	Key       []string `json:"key,omitempty"`
	OnlyFiles bool     `json:"only_files,omitempty"`
	Progress  bool     `json:"progress,omitempty"` // whether messages report how far the call is
}

// Diff decodes the body of the action diff.
func Diff(text []byte) (DiffCommand, error) {
	return command(text, []field[DiffCommand]{
		{name: "table", must: true, read: func(d *decoder, at place, out *DiffCommand) { out.Table = d.table(at) }},
		{name: "from", read: func(d *decoder, at place, out *DiffCommand) { out.From = d.name(at) }},
		{name: "to", read: func(d *decoder, at place, out *DiffCommand) { out.To = d.name(at) }},
		{name: "key", read: func(d *decoder, at place, out *DiffCommand) { out.Key = d.names(at) }},
		{name: "only_files", read: func(d *decoder, at place, out *DiffCommand) {
			if out.OnlyFiles = d.truth(at); out.OnlyFiles && len(out.Key) > 0 {
				d.fail(at.path, "no key is compared then; leave key out")
			}
		}},
		{name: "progress", read: func(d *decoder, at place, out *DiffCommand) { out.Progress = d.truth(at) }},
	})
}

// StatsCommand is the body of the action stats, as JSON. Packages statistics and entries describe its fields, under Request.
type StatsCommand struct {
	Of       string   `json:"of"`                // a dataset or a table
	At       string   `json:"at,omitempty"`      // of a table
	Against  string   `json:"against,omitempty"` // of a table as At, of a dataset another dataset
	Columns  []string `json:"columns,omitempty"`
	Label    string   `json:"label,omitempty"`
	Exact    bool     `json:"exact,omitempty"`
	NoValues bool     `json:"no_values,omitempty"`
	Keep     bool     `json:"keep,omitempty"`
	HTML     bool     `json:"html,omitempty"`     // whether a second result has the HTML page
	Progress bool     `json:"progress,omitempty"` // whether messages report how far the call is
}

// Stats decodes the body of the action stats.
func Stats(text []byte) (StatsCommand, error) {
	return command(text, []field[StatsCommand]{
		{name: "of", must: true, also: []string{"table", "dataset"}, read: func(d *decoder, at place, out *StatsCommand) { out.Of = d.name(at) }},
		{name: "at", also: []string{"snapshot"}, read: func(d *decoder, at place, out *StatsCommand) { out.At = d.name(at) }},
		{name: "against", read: func(d *decoder, at place, out *StatsCommand) { out.Against = d.name(at) }},
		{name: "columns", read: func(d *decoder, at place, out *StatsCommand) { out.Columns = d.names(at) }},
		{name: "label", read: func(d *decoder, at place, out *StatsCommand) { out.Label = d.name(at) }},
		{name: "exact", read: func(d *decoder, at place, out *StatsCommand) { out.Exact = d.truth(at) }},
		{name: "no_values", read: func(d *decoder, at place, out *StatsCommand) { out.NoValues = d.truth(at) }},
		{name: "keep", read: func(d *decoder, at place, out *StatsCommand) {
			if out.Keep = d.truth(at); out.Keep && (len(out.Columns) > 0 || out.Against != "" || out.Label != "") {
				d.fail(at.path, "is supported only without columns, against and label: kept statistics are those of all columns of one snapshot")
			}
		}},
		{name: "html", read: func(d *decoder, at place, out *StatsCommand) { out.HTML = d.truth(at) }},
		{name: "progress", read: func(d *decoder, at place, out *StatsCommand) { out.Progress = d.truth(at) }},
	})
}
