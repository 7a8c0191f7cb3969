package flight

import (
	"context"

	"github.com/penstock/penstock/flight/access"
	"github.com/penstock/penstock/flight/call"
	"github.com/penstock/penstock/flight/failure"
	"github.com/penstock/penstock/internal/jsontext"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/dataset/decode"
	"github.com/penstock/penstock/loader/policy"
)

// Proposer lays out the staging tables of new features. It is safe for concurrent use.
type Proposer interface {
	// Propose reads the metadata of tables alone.
	Propose(ctx context.Context, request ProposeRequest) (*Proposal, error)
}

// ProposeRequest describes features of a dataset. The client may read all of the dataset.
type ProposeRequest struct {
	decode.ProposeCommand
	Dataset dataset.Dataset
	Others  []dataset.Dataset // the other datasets that the client may read
	// Shown is whether the client may learn if a table with the name of the new one exists.
	Shown bool
}

// Proposal is the result of the action propose.
type Proposal struct {
	Dataset string `json:"dataset"`
	Table   string `json:"table"` // the staging table
	// SQL are the Spark SQL statements that create and fill the table, with "<source>" in place of the rows. YAML is the dataset that reads it.
	SQL  string `json:"sql"`
	YAML string `json:"yaml"`
	// Columns are those of the table, Key those of its key, Partition the fields of its partitions, and Sort the columns by which rows are sorted.
	Columns   []ProposedColumn `json:"columns"`
	Key       []string         `json:"key"`
	Partition []string         `json:"partition"`
	Sort      []string         `json:"sort"`
	Aligned   string           `json:"aligned,omitempty"` // the column whose partitions are aligned with those of the training table
	// StageFlags are the flags with which penstock stage creates such a table; absent if it cannot.
	StageFlags []string `json:"stage_flags,omitempty"`
	Notes      []string `json:"notes,omitempty"` // what differs from the layout of the training table
}

// ProposedColumn is a column with its type in Spark SQL.
type ProposedColumn struct {
	Name string `json:"name"`
	Type string `json:"type"`
}

// propose lays out a staging table. The caller must be allowed to call explain for all of the dataset.
func (s *service) propose(ctx context.Context, c *call.Call, body []byte) ([]byte, error) {
	asked, err := decode.Propose(body)
	if err != nil {
		return nil, err
	}
	query := dataset.Query{Rows: dataset.Rows{Dataset: asked.Dataset}}
	c.Note.Query(query)
	may, err := s.guard.PermitTo(c, query, policy.Explain)
	if err != nil {
		return nil, err
	}
	request := ProposeRequest{ProposeCommand: asked, Shown: s.guard.TableAccess(c, asked.Table) != access.HiddenTable}
	for _, reader := range s.guard.Readers(c) {
		if reader.Dataset.Name == asked.Dataset {
			request.Dataset = reader.Dataset
		} else {
			request.Others = append(request.Others, reader.Dataset)
		}
	}
	out, err := s.options.Proposer.Propose(ctx, request)
	if changed := s.guard.CheckUnchanged(may); changed != nil {
		return nil, changed
	}
	if err != nil {
		return nil, s.guard.Disclosed(ctx, may, failure.Cause(ctx, err))
	}
	return jsontext.Of(out), nil
}
