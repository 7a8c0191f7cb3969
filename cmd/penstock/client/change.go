package client

import (
	"context"
	"encoding/json"

	"github.com/penstock/penstock/flight"
	"github.com/penstock/penstock/internal/fault"
)

// Change calls an action that changes tables, with a body that is sent as JSON. It calls progress with the server's messages,
// and decodes the result into out. After a failure, out may have the part of the change that was made.
func (c *Client) Change(ctx context.Context, action string, body, out any, progress func(flight.ChangeProgress)) error {
	text, err := json.Marshal(body)
	if err != nil {
		return fault.New(fault.Internal, "write the body of action %s: %w", action, err)
	}
	done := false
	err = c.each(ctx, action, text, func(answer []byte) error {
		var message struct {
			Progress *flight.ChangeProgress `json:"progress"`
			Result   json.RawMessage        `json:"result"`
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
