package client

import (
	"context"
	"encoding/json"

	"github.com/penstock/penstock/flight/changes"
	"github.com/penstock/penstock/loader/catalog/history"
)

// Change calls an action that takes long, with a body that is sent as JSON, or as it is if it is bytes. It calls progress with the server's messages,
// and decodes the result into out. After a failure, out may describe the part of the change that was made.
func (c *Client) Change(ctx context.Context, action string, body, out any, progress func(changes.Progress)) error {
	text, err := bodyOf(action, body)
	if err != nil {
		return err
	}
	done := false
	err = c.each(ctx, action, text, func(answer []byte) error {
		var message struct {
			Progress *changes.Progress `json:"progress"`
			Result   json.RawMessage   `json:"result"`
		}
		if err := json.Unmarshal(answer, &message); err != nil {
			return c.unread("read what %s sent: %w", c.name, err)
		}
		if message.Progress != nil {
			progress(*message.Progress)
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

// Move is a move of a table's branch from one snapshot to another. The snapshot 0 means that the branch has none.
type Move struct {
	Table  string `json:"table"`
	Branch string `json:"branch,omitempty"` // "": main
	From   int64  `json:"from"`
	To     int64  `json:"to"`
	// Undone are the snapshots that an undo of the last change took back, the newest first.
	Undone []history.Entry `json:"undone,omitempty"`
}

// Publish moves the branch main of a table to the snapshot of another branch.
func (c *Client) Publish(ctx context.Context, table, branch string) (out Move, err error) {
	return out, c.actJSON(ctx, "publish", map[string]string{"table": table, "branch": branch}, &out)
}

// Undo moves a branch back from the snapshot To to the snapshot From, and returns the move back.
func (c *Client) Undo(ctx context.Context, made Move) (back Move, err error) {
	return back, c.actJSON(ctx, "undo", made, &back)
}

// UndoLast takes the last change of Penstock to a branch of a table back ("" is main), and returns the move back. A dry run only says
// what that would be.
func (c *Client) UndoLast(ctx context.Context, table, branch string, dryRun bool) (back Move, err error) {
	body := map[string]any{"table": table, "dry_run": dryRun}
	if branch != "" {
		body["branch"] = branch
	}
	return back, c.actJSON(ctx, "undo", body, &back)
}
