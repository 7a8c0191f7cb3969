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
