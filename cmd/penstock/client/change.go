package client

import (
	"context"
	"encoding/json"

	"github.com/penstock/penstock/flight/progress"
	"github.com/penstock/penstock/loader/catalog/history"
)

// Change calls a long-running action. It sends the body as JSON, or unchanged if it is a []byte,
// calls report with the server's messages, and decodes the result into out. After a failure, out
// may describe the part of the change that was made.
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
	From   int64  `json:"from"`
	To     int64  `json:"to"`
	// Undone lists the snapshots that the undo of a last change removes from the branch, newest first.
	Undone []history.Entry `json:"undone,omitempty"`
}

// Publish moves the branch main of a table to the snapshot of another branch.
func (c *Client) Publish(ctx context.Context, table, branch string) (out Move, err error) {
	return out, c.actJSON(ctx, "publish", map[string]string{"table": table, "branch": branch}, &out)
}

// Undo moves a branch from the snapshot made.To back to the snapshot made.From, and returns that
// move.
func (c *Client) Undo(ctx context.Context, made Move) (back Move, err error) {
	return back, c.actJSON(ctx, "undo", made, &back)
}

// LastChange returns the move that would undo Penstock's last change to a branch of a table ("" is
// main). Nothing is moved.
func (c *Client) LastChange(ctx context.Context, table, branch string) (back Move, err error) {
	body := map[string]any{"table": table, "dry_run": true}
	if branch != "" {
		body["branch"] = branch
	}
	return back, c.actJSON(ctx, "undo", body, &back)
}
