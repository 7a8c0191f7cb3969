package decode

import (
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/dataset"
)

// maxBuckets is the number of buckets of a table. Each is a file of every partition.
const maxBuckets = 1 << 16

// Stage decodes the command of a stream of rows to a table: {"stage": {"table": …}}.
func Stage(text []byte) (dataset.TableWrite, error) {
	return parse(text, "command", func(d *decoder, at place) dataset.TableWrite {
		var out dataset.TableWrite
		object(d, at, &out, []field[dataset.TableWrite]{
			{name: "stage", must: true, read: func(d *decoder, at place, out *dataset.TableWrite) { d.stage(at, out) }},
		})
		return out
	})
}

// stage decodes what to do with the rows.
func (d *decoder) stage(at place, out *dataset.TableWrite) {
	object(d, at, out, []field[dataset.TableWrite]{
		{name: "table", must: true, read: func(d *decoder, at place, out *dataset.TableWrite) { out.Table = d.table(at) }},
		{name: "mode", read: func(d *decoder, at place, out *dataset.TableWrite) {
			out.Mode = choice(d, at, dataset.WriteModes())
		}},
		{name: "token", read: func(d *decoder, at place, out *dataset.TableWrite) { out.Token = d.name(at) }},
		{name: "branch", also: []string{"ref"}, read: func(d *decoder, at place, out *dataset.TableWrite) { out.Branch = d.name(at) }},
		{name: "evolve", read: func(d *decoder, at place, out *dataset.TableWrite) { out.Evolve = d.truth(at) }},
		{name: "key", read: func(d *decoder, at place, out *dataset.TableWrite) { out.Key = d.key(at) }},
		{name: "sort", also: []string{"order_by"}, read: func(d *decoder, at place, out *dataset.TableWrite) { out.Sort = d.names(at) }},
		{name: "buckets", read: func(d *decoder, at place, out *dataset.TableWrite) { out.Buckets = int(d.whole(at, 1, maxBuckets)) }},
		{name: "like", read: func(d *decoder, at place, out *dataset.TableWrite) { out.Like = d.table(at) }},
		{name: "partition", also: []string{"partition_by"}, read: func(d *decoder, at place, out *dataset.TableWrite) { out.Partition = d.names(at) }},
		{name: "only_keys_of", read: func(d *decoder, at place, out *dataset.TableWrite) { out.OnlyKeysOf = d.name(at) }},
		{name: "allow_shrink", read: func(d *decoder, at place, out *dataset.TableWrite) { out.AllowShrink = d.truth(at) }},
		{name: "dry_run", read: func(d *decoder, at place, out *dataset.TableWrite) { out.DryRun = d.truth(at) }},
		{name: "progress", read: func(d *decoder, at place, out *dataset.TableWrite) { out.Progress = d.truth(at) }},
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
