package decode

import (
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/dataset"
)

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

// stage decodes the fields of the command.
func (d *decoder) stage(at place, out *dataset.TableWrite) {
	object(d, at, out, described(dataset.WriteFields(), map[string]readFunc[dataset.TableWrite]{
		"table": func(d *decoder, at place, out *dataset.TableWrite) { out.Table = d.table(at) },
		"key":   func(d *decoder, at place, out *dataset.TableWrite) { out.Key = d.key(at) },
		"like":  func(d *decoder, at place, out *dataset.TableWrite) { out.Like = d.table(at) },
	}))
	d.conflicts(at, out.Check())
}

// PublishCommand moves the main branch of a table to the snapshot of another branch (Publish), or
// reverts a change of a branch (Undo).
type PublishCommand struct {
	Table  string
	Branch string // publish: the branch to move main to; undo: the changed branch, "" for main
	// From and To are, for undo, the change's snapshots, and for publish those at which main and the branch were seen. From is 0 if
	// there was no snapshot.
	From, To int64
	DryRun   bool
	Drop     bool // for undo: whether the table may be dropped
	NoCheck  bool // whether the datasets that read the table are not checked: for publish, their limits
}

// Last reports whether an undo reverts the last change, whatever its snapshots are.
func (c PublishCommand) Last() bool { return c.To == 0 }

// Publish decodes {"table": …, "branch": …, "from": …, "to": …, "dry_run": …, "no_check": …}. The fields from and to are given together or
// left out.
func Publish(text []byte) (PublishCommand, error) {
	out, from, err := publication(text,
		field[PublishCommand]{name: "branch", must: true, read: func(d *decoder, at place, out *PublishCommand) { out.Branch = d.name(at) }})
	switch {
	case err != nil:
		return out, err
	case from && out.To == 0:
		return out, fault.InvalidField("to", "is required beside from").WithRemedy("give both, or none to publish the branch as it is")
	case !from && out.To != 0:
		return out, fault.InvalidField("from", "is required beside to").WithRemedy("give both, or none to publish the branch as it is; from is 0 if main has no snapshot")
	}
	return out, nil
}

// Undo decodes {"table": …, "branch": …, "from": …, "to": …, "drop": …, "dry_run": …, "no_check": …}. The branch may be left
// out, and from may be 0. If from and to are left out, the last change is reverted. Only then may
// dry_run be set.
func Undo(text []byte) (PublishCommand, error) {
	out, from, err := publication(text,
		field[PublishCommand]{name: "branch", read: func(d *decoder, at place, out *PublishCommand) { out.Branch = d.name(at) }},
		field[PublishCommand]{name: "drop", read: func(d *decoder, at place, out *PublishCommand) { out.Drop = d.truth(at) }})
	switch {
	case err != nil:
		return out, err
	case from && out.Last():
		return out, fault.InvalidField("to", "is required beside from").WithRemedy("give both, or none to take the last change back")
	case !from && !out.Last():
		return out, fault.InvalidField("from", "is required beside to").WithRemedy("give both, or none to take the last change back; from is 0 if there was no snapshot before")
	case out.DryRun && !out.Last():
		return out, fault.InvalidField("dry_run", "is for the last change only").WithRemedy("leave out from and to")
	}
	return out, nil
}

// publication decodes the given fields and those that both commands have. It also returns whether from was given, which may be 0.
func publication(text []byte, fields ...field[PublishCommand]) (out PublishCommand, from bool, err error) {
	out, err = parse(text, "body", func(d *decoder, at place) PublishCommand {
		var out PublishCommand
		object(d, at, &out, append(fields,
			field[PublishCommand]{name: "table", must: true, read: func(d *decoder, at place, out *PublishCommand) { out.Table = d.table(at) }},
			field[PublishCommand]{name: "from", read: func(d *decoder, at place, out *PublishCommand) { out.From, from = d.snapshotID(at, 0), true }},
			field[PublishCommand]{name: "to", read: func(d *decoder, at place, out *PublishCommand) { out.To = d.snapshotID(at, 1) }},
			field[PublishCommand]{name: "no_check", read: func(d *decoder, at place, out *PublishCommand) { out.NoCheck = d.truth(at) }},
			field[PublishCommand]{name: "dry_run", read: func(d *decoder, at place, out *PublishCommand) { out.DryRun = d.truth(at) }}))
		return out
	})
	return out, from, err
}
