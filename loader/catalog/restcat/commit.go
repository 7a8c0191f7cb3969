package restcat

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/catalog/locator"
)

var _ locator.Dropper = (*Catalog)(nil)

// commitTable is the body of a request that changes a table, with the conditions of the change.
type commitTable struct {
	Requirements []requirement `json:"requirements"`
	Updates      []setRef      `json:"updates"`
}

type requirement struct {
	Type string `json:"type"`
	UUID string `json:"uuid,omitempty"`
	*refRequirement
}

// refRequirement requires that a ref is at a snapshot, or that the ref does not exist if the
// snapshot is null.
type refRequirement struct {
	Ref      string `json:"ref"`
	Snapshot *int64 `json:"snapshot-id"`
}

type setRef struct {
	Action   string `json:"action"`
	Ref      string `json:"ref-name"`
	Type     string `json:"type"`
	Snapshot int64  `json:"snapshot-id"`
	MaxAge   int64  `json:"max-ref-age-ms"`
}

// SetTag sets a tag, on the conditions that the table has the uuid in tag, and that the tag is
// where it was or still does not exist. The request is idempotent, so it can be retried. See
// locator.Updater.
func (c *Catalog) SetTag(ctx context.Context, t locator.Table, tag locator.Tag) (locator.Outcome, error) {
	where := &refRequirement{Ref: tag.Name}
	if tag.There {
		where.Snapshot = &tag.Snapshot
	}
	content := commitTable{
		Requirements: []requirement{{Type: "assert-table-uuid", UUID: tag.UUID}, {Type: "assert-ref-snapshot-id", refRequirement: where}},
		Updates: []setRef{{
			Action: "set-snapshot-ref", Ref: tag.Name, Type: "tag", Snapshot: tag.Snapshot, MaxAge: tag.MaxAge.Milliseconds(),
		}},
	}
	return c.commit(ctx, t, content, func(answer []byte) bool { return isIn(tag, answer) },
		"allow the identity of the catalog's token or credential to commit to its tables, or leave pin_tags out")
}

// commit sends a commit to a table. The function isMade reports whether a response contains the
// change; if it does not, the outcome is Unknown. If the server refuses the commit, the error has
// the given remedy.
func (c *Catalog) commit(ctx context.Context, t locator.Table, request any, isMade func(answer []byte) bool, remedy string) (locator.Outcome, error) {
	if err := c.starting.ready(ctx); err != nil {
		return locator.Refused, err
	}
	content, err := json.Marshal(request)
	if err != nil {
		return locator.Refused, fault.New(fault.Internal, "write a commit to table %s: %w", t.Name, err)
	}
	status := 0
	answer, err := c.client.send(ctx, call{
		what: "commit to table " + t.Name, table: t.Name, max: t.Most, grow: t.Charge,
		request: func(ctx context.Context) (*http.Request, error) { return c.client.post(ctx, c.table(t), content) },
		failed:  func(s int, _ string) error { status = s; return nil },
	})
	switch {
	case err == nil && isMade(answer):
		return locator.Committed, nil
	case err == nil:
		return locator.Unknown, fault.New(fault.Unavailable, "catalog %s: commit to table %s: the answer of %s does not contain what was committed",
			c.client.options.Name, t.Name, c.client.base.Redacted()).In(t.Name, "").WithRemedy("check any proxy between Penstock and the catalog")
	case status == http.StatusConflict, status == http.StatusNotFound:
		return locator.Lost, nil // the caller loads the table again, and then finds out whether it still exists
	case status == 0 || reply{status: status}.passes():
		return locator.Unknown, err
	}
	return locator.Refused, fault.As(err).WithRemedy("%s", remedy)
}

// isIn reports whether the response to a commit contains the tag. A proxy may respond with
// status 200 although nothing was committed.
func isIn(tag locator.Tag, answer []byte) bool {
	var committed struct {
		Metadata struct {
			Refs map[string]struct {
				Type     string `json:"type"`
				Snapshot int64  `json:"snapshot-id"`
			} `json:"refs"`
		} `json:"metadata"`
	}
	if json.Unmarshal(answer, &committed) != nil {
		return false
	}
	ref := committed.Metadata.Refs[tag.Name]
	return ref.Type == "tag" && ref.Snapshot == tag.Snapshot
}
