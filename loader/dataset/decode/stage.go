package decode

import "github.com/penstock/penstock/loader/dataset"

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
	object(d, at, out, described(dataset.WriteFields(), map[string]readFunc[dataset.TableWrite]{
		"table": func(d *decoder, at place, out *dataset.TableWrite) { out.Table = d.table(at) },
		"key":   func(d *decoder, at place, out *dataset.TableWrite) { out.Key = d.key(at) },
		"like":  func(d *decoder, at place, out *dataset.TableWrite) { out.Like = d.table(at) },
	}))
	d.conflicts(at, out.Check())
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
