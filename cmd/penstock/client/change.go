package client

import (
	"context"
	"encoding/json"
	"strconv"

	"github.com/penstock/penstock/flight/changes"
	"github.com/penstock/penstock/flight/progress"
	"github.com/penstock/penstock/loader/catalog/history"
	"github.com/penstock/penstock/loader/stage"
)

// Change calls an action that may run for a long time. It sends the body as JSON; a body of type
// []byte is sent unchanged. It calls report with each message about progress that the server sends,
// and decodes the result into out. After a failure, out may describe a part of the change that was
// committed.
func (c *Client) Change(ctx context.Context, action string, body, out any, report func(progress.Message)) error {
	text, err := bodyOf(action, body)
	if err != nil {
		return err
	}
	done := false
	err = c.each(ctx, action, text, func(answer []byte) error {
		var message struct {
			Progress *progress.Message `json:"progress"`
			Result   json.RawMessage   `json:"result"`
		}
		if err := json.Unmarshal(answer, &message); err != nil {
			return c.unread("read what %s sent: %w", c.name, err)
		}
		if message.Progress != nil {
			report(*message.Progress)
		}
		if message.Result == nil {
			return nil
		}
		done = true
		if err := json.Unmarshal(message.Result, out); err != nil {
			return c.unread("read the result that %s sent: %w", c.name, err)
		}
		return nil
	})
	if err == nil && !done {
		return c.unread("%s ended action %s without a result", c.name, action)
	}
	return err
}

// Move is a move of a table's branch from one snapshot to another. Snapshot 0 means that the branch
// has no snapshot.
type Move struct {
	Table  string `json:"table"`
	Branch string `json:"branch,omitempty"` // "": main
	From   int64  `json:"from,omitempty,string"`
	To     int64  `json:"to,omitempty,string"`
	// Drop allows an undo to drop the table. Dropped is true if the undo did so, or would do so; Folder
	// is then the folder of the table's files.
	Drop    bool   `json:"drop,omitempty"`
	Dropped bool   `json:"dropped,omitempty"`
	Folder  string `json:"folder,omitempty"`
	// Undone lists the snapshots that undoing the last change removes from the branch, the newest
	// first.
	Undone []history.Entry `json:"undone,omitempty"`
	// NoCheck leaves out the check of the limits of a publish, and of the datasets that read the table of an undo. Readers is the result
	// of the latter; nil if they were not checked.
	NoCheck bool                `json:"-"`
	Readers []stage.ReaderCheck `json:"readers,omitzero"`
	// Limits are the limits of values that a publish has checked.
	Limits []changes.CheckedLimits `json:"limits,omitempty"`
}

// Publish moves the branch main of a table to the snapshot of the branch of a move. If To is not 0, From and To are the snapshots at which main
// and the branch were seen, and the error is Conflict if one of them has moved. With NoCheck, limits of values are not checked.
func (c *Client) Publish(ctx context.Context, move Move) (out Move, err error) {
	return out, c.actJSON(ctx, "publish", publicationBody(move), &out)
}

// WouldPublish returns the move that Publish would make, and the limits that it would check, without counts.
func (c *Client) WouldPublish(ctx context.Context, move Move) (out Move, err error) {
	body := publicationBody(move)
	body["dry_run"] = true
	return out, c.actJSON(ctx, "publish", body, &out)
}

func publicationBody(move Move) map[string]any {
	body := map[string]any{"table": move.Table, "branch": move.Branch}
	if move.To != 0 {
		body["from"], body["to"] = strconv.FormatInt(move.From, 10), strconv.FormatInt(move.To, 10)
	}
	if move.NoCheck {
		body["no_check"] = true
	}
	return body
}

// Undo undoes the move made: it moves the branch from snapshot made.To back to snapshot made.From.
// It returns this move back.
func (c *Client) Undo(ctx context.Context, made Move) (back Move, err error) {
	body := map[string]any{"table": made.Table, "from": strconv.FormatInt(made.From, 10), "to": strconv.FormatInt(made.To, 10)}
	if made.Branch != "" {
		body["branch"] = made.Branch
	}
	if made.Drop {
		body["drop"] = true
	}
	if made.NoCheck {
		body["no_check"] = true
	}
	return back, c.actJSON(ctx, "undo", body, &back)
}

// LastChange returns the move that would undo Penstock's last change to a branch of a table, but
// does not move the branch. The branch "" is main.
func (c *Client) LastChange(ctx context.Context, table, branch string) (back Move, err error) {
	body := map[string]any{"table": table, "dry_run": true}
	if branch != "" {
		body["branch"] = branch
	}
	return back, c.actJSON(ctx, "undo", body, &back)
}
