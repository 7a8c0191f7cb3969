package decode

import (
	"github.com/penstock/penstock/internal/fault"
)

// maxBuckets is the number of buckets of a table. Each is a file of every partition.
const maxBuckets = 1 << 16

// StagedMode is what becomes of the rows that a table has.
type StagedMode string

// The modes.
const (
	StagedAppend  StagedMode = "append"
	StagedReplace StagedMode = "replace"
)

// StageCommand is what a client asks for when it sends rows to a table.
type StageCommand struct {
	Table      string     `json:"table"`
	Mode       StagedMode `json:"mode,omitempty"` // "": StagedAppend
	Token      string     `json:"token,omitempty"`
	Branch     string     `json:"branch,omitempty"`
	Evolve     bool       `json:"evolve,omitempty"`
	Key        []string   `json:"key,omitempty"`
	Sort       []string   `json:"sort,omitempty"`
	Buckets    int        `json:"buckets,omitempty"`
	Like       string     `json:"like,omitempty"` // a table
	Partition  []string   `json:"partition,omitempty"`
	OnlyKeysOf string     `json:"only_keys_of,omitempty"` // a dataset or a table
	DryRun     bool       `json:"dry_run,omitempty"`
	Progress   bool       `json:"progress,omitempty"` // whether messages tell how far the call is
}

// Stage decodes the command of a stream of rows to a table: {"stage": {"table": …}}.
func Stage(text []byte) (StageCommand, error) {
	return parse(text, "command", func(d *decoder, at place) StageCommand {
		var out StageCommand
		object(d, at, &out, []field[StageCommand]{
			{name: "stage", must: true, read: func(d *decoder, at place, out *StageCommand) { d.stage(at, out) }},
		})
		return out
	})
}

// stage decodes what to do with the rows.
func (d *decoder) stage(at place, out *StageCommand) {
	object(d, at, out, []field[StageCommand]{
		{name: "table", must: true, read: func(d *decoder, at place, out *StageCommand) { out.Table = d.table(at) }},
		{name: "mode", read: func(d *decoder, at place, out *StageCommand) {
			out.Mode = choice(d, at, []StagedMode{StagedAppend, StagedReplace})
		}},
		{name: "token", read: func(d *decoder, at place, out *StageCommand) { out.Token = d.name(at) }},
		{name: "branch", also: []string{"ref"}, read: func(d *decoder, at place, out *StageCommand) { out.Branch = d.name(at) }},
		{name: "evolve", read: func(d *decoder, at place, out *StageCommand) { out.Evolve = d.truth(at) }},
		{name: "key", read: func(d *decoder, at place, out *StageCommand) { out.Key = d.key(at) }},
		{name: "sort", also: []string{"order_by"}, read: func(d *decoder, at place, out *StageCommand) { out.Sort = d.names(at) }},
		{name: "buckets", read: func(d *decoder, at place, out *StageCommand) { out.Buckets = int(d.whole(at, 1, maxBuckets)) }},
		{name: "like", read: func(d *decoder, at place, out *StageCommand) { out.Like = d.table(at) }},
		{name: "partition", also: []string{"partition_by"}, read: func(d *decoder, at place, out *StageCommand) { out.Partition = d.names(at) }},
		{name: "only_keys_of", read: func(d *decoder, at place, out *StageCommand) { out.OnlyKeysOf = d.name(at) }},
		{name: "dry_run", read: func(d *decoder, at place, out *StageCommand) { out.DryRun = d.truth(at) }},
		{name: "progress", read: func(d *decoder, at place, out *StageCommand) { out.Progress = d.truth(at) }},
	})
	if out.Buckets > 0 && out.Like != "" {
		d.add(0, fault.Field{Field: at.pathOf("like"), Message: "gives the number of buckets too: give buckets or like, and not both"})
	}
}

// PublishCommand is a move of the main branch of a table, or the move that is taken back.
type PublishCommand struct {
	Table    string
	Branch   string // of a move that is taken back: "" for main
	From, To int64  // snapshots; From is 0 if there was none
}

// Publish decodes {"table": …, "branch": …}.
func Publish(text []byte) (PublishCommand, error) {
	return publication(text, field[PublishCommand]{name: "branch", must: true, read: func(d *decoder, at place, out *PublishCommand) { out.Branch = d.name(at) }})
}

// Undo decodes {"table": …, "branch": …, "from": …, "to": …}. The branch may be left out, and from may be 0.
func Undo(text []byte) (PublishCommand, error) {
	return publication(text,
		field[PublishCommand]{name: "branch", read: func(d *decoder, at place, out *PublishCommand) { out.Branch = d.name(at) }},
		field[PublishCommand]{name: "from", must: true, read: func(d *decoder, at place, out *PublishCommand) { out.From = d.whole(at, 0, maxInt64) }},
		field[PublishCommand]{name: "to", must: true, read: func(d *decoder, at place, out *PublishCommand) { out.To = d.whole(at, 1, maxInt64) }})
}

func publication(text []byte, fields ...field[PublishCommand]) (PublishCommand, error) {
	return parse(text, "body", func(d *decoder, at place) PublishCommand {
		var out PublishCommand
		object(d, at, &out, append(fields, field[PublishCommand]{
			name: "table", must: true, read: func(d *decoder, at place, out *PublishCommand) { out.Table = d.table(at) },
		}))
		return out
	})
}
