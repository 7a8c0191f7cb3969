package flight

import (
	"context"
	"encoding/json"

	arrowflight "github.com/apache/arrow-go/v18/arrow/flight"

	"github.com/penstock/penstock/flight/ticket"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/jsontext"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/plan"
)

// partSummary is the app_metadata of an endpoint of splits.
type partSummary struct {
	V      int      `json:"v"`
	Splits []string `json:"splits"` // their ids, in order
	// Files is what the first split joins; it is omitted if the split joins nothing.
	Files *joinedFiles `json:"files,omitempty"`
	// At is the position in the first split at which the part begins, in the form that cursors
	// have; it is omitted if the part begins with the split.
	At   json.RawMessage `json:"at,omitempty"`
	Rows int64           `json:"rows"` // of the endpoint's stream; -1 is unknown
	// Batches is the number of batches of the stream; -1 is unknown.
	Batches int64 `json:"batches"`
}

// joinedFiles identifies the staging files that a split joins among those of all splits of the plan.
type joinedFiles struct {
	Index int `json:"index"`
	Of    int `json:"of"`
}

// splitEndpoints returns an endpoint with a ticket for each part of the plan, starting at the
// query's cursor.
func (t *tickets) splitEndpoints(ctx context.Context, p planned) ([]*arrowflight.FlightEndpoint, error) {
	whole := dataset.Shard{Of: 1} // the plan has one lane, which was checked
	cursors := p.narrow(whole)
	var at dataset.Position
	if len(cursors) > 0 {
		at = cursors[0].At[0]
	}
	joins, count := p.JoinedFiles()
	expires := t.expiry()
	seal, release := t.sealer(ctx, p.access.Call)
	defer release()
	var endpoints []*arrowflight.FlightEndpoint
	for _, part := range p.PartsFrom(at.Range) {
		q := p.Query
		q.Shard, q.Cursor = whole, cursors
		if part.From > at.Range {
			q.Cursor, at = nil, dataset.Position{Range: part.From} // the part begins with a split
		}
		c := ticket.New(q, p.Plan)
		c.Part = &part
		if len(q.Cursor) == 0 {
			c.Counted = p.carried(whole)
		}
		sealed, err := seal(c, expires)
		if err != nil {
			return nil, err
		}
		e := t.endpoint(sealed, expires)
		summary, err := p.partSummary(part, at)
		if err != nil {
			return nil, err
		}
		if part.From < part.To && joins[part.From] != plan.NoFiles {
			summary.Files = &joinedFiles{Index: joins[part.From], Of: count}
		}
		e.AppMetadata = jsontext.Of(summary)
		endpoints = append(endpoints, e)
	}
	return endpoints, nil
}

// partSummary returns the description of a part that begins at a position.
func (p planned) partSummary(part plan.Part, at dataset.Position) (partSummary, error) {
	out := partSummary{V: 1, Splits: []string{}, Rows: unknown, Batches: unknown}
	for _, split := range p.Splits[part.From:part.To] {
		out.Splits = append(out.Splits, split.ID)
	}
	if p.Inexact == "" {
		out.Rows = p.RowsBefore(dataset.Position{Range: part.To}) - p.RowsBefore(at)
		out.Batches = (out.Rows + int64(p.BatchRows) - 1) / int64(p.BatchRows)
	}
	if at == (dataset.Position{Range: part.From}) {
		return out, nil
	}
	var cursor struct {
		At []json.RawMessage `json:"at"`
	}
	if err := json.Unmarshal(p.Query.Cursor[0].JSON(), &cursor); err != nil {
		return out, fault.New(fault.Internal, "read a cursor: %w", err)
	}
	out.At = cursor.At[0]
	return out, nil
}
