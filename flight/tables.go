package flight

import (
	"cmp"
	"context"
	"slices"

	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/penstock/penstock/internal/audit"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/catalog/commit"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/dataset/decode"
	"github.com/penstock/penstock/loader/policy"
	"github.com/penstock/penstock/loader/stage"
)

// TableWriter writes to tables. It is safe for concurrent use.
type TableWriter interface {
	// Writable returns an error if the configuration does not allow writes to a table. It does not ask the catalog.
	Writable(table string) error
	// Stage writes rows to a table as one change; see stage.Stager.
	Stage(ctx context.Context, request stage.TableWrite, from WriteSources, rows array.RecordReader) (stage.WriteResult, error)
	// Publish moves main of a table to the snapshot of a branch, and Undo takes a move back; see commit.Brancher.
	Publish(ctx context.Context, table, branch string) (commit.Move, error)
	Undo(ctx context.Context, made commit.Move) error
}

// WriteSources are the tables whose keys and layout a change uses, and what the caller may read of them.
type WriteSources struct {
	// KeysOf is a dataset or a table: rows whose key none of its training rows has are dropped. "": no rows are.
	KeysOf     string
	KeysRights policy.Rights
	LikeRights policy.Rights // to the table that a new one is laid out like
}

// published is the result of publish and undo.
type published struct {
	Table string `json:"table"`
	// Branch is the branch whose snapshot main has, or of undo the branch that was moved back; "" for main.
	Branch string `json:"branch,omitempty"`
	From   int64  `json:"from"` // the snapshot that main, or the branch of undo, was at; 0: none
	To     int64  `json:"to"`   // the snapshot that it is at; 0: none
}

func (s *service) publish(ctx context.Context, c *call, body []byte) ([]byte, error) {
	asked, err := decode.Publish(body)
	if err != nil {
		return nil, err
	}
	if err := s.permitChange(c, asked.Table, policy.Publish); err != nil {
		return nil, err
	}
	c.note.change(audit.Publish, "", asked.Table)
	move, err := s.options.Tables.Publish(ctx, asked.Table, asked.Branch)
	if err != nil {
		return nil, err
	}
	c.note.changed(move.To)
	return marshal(published{Table: asked.Table, Branch: asked.Branch, From: move.From, To: move.To}), nil
}

func (s *service) undo(ctx context.Context, c *call, body []byte) ([]byte, error) {
	asked, err := decode.Undo(body)
	if err != nil {
		return nil, err
	}
	if err := s.permitChange(c, asked.Table, policy.Publish); err != nil {
		return nil, err
	}
	c.note.change(audit.Undo, "", asked.Table)
	branch := cmp.Or(asked.Branch, commit.Main)
	if err := s.options.Tables.Undo(ctx, commit.Move{Table: asked.Table, Ref: branch, From: asked.From, To: asked.To}); err != nil {
		return nil, err
	}
	c.note.changed(asked.From)
	out := published{Table: asked.Table, From: asked.To, To: asked.From}
	if branch != commit.Main {
		out.Branch = branch
	}
	return marshal(out), nil
}

// permitChange returns an error unless the caller may change a table. It is the same whether or not the table exists.
func (s *Server) permitChange(c *call, table string, what policy.Permission) error {
	if err := s.options.Audit.Err(); err != nil {
		return notAudited(err)
	}
	c.note.table(table)
	if s.policy().Write(c.caller, table, what) {
		return nil
	}
	return fault.New(fault.Forbidden, "this client may not %s table %s on this server", what, fault.Shorten(table, maxAudited)).
		WithRemedy("ask the operator of the server for a rule of its policy with allow: [%s] and write: [%s]; without a policy, only local clients of a server without credentials may write", what, fault.Shorten(table, maxAudited))
}

// permitKeysOf returns the caller's rights to a dataset or a table, whose keys decide which rows are kept. It returns an error
// unless the caller may read all of it. If a dataset and a table share a name, the dataset wins, as in the writer; rights to
// the table do not apply.
func (s *Server) permitKeysOf(c *call, of string) (policy.Rights, error) {
	d, rights, err := s.readable(c, of)
	if err != nil {
		if slices.ContainsFunc(s.options.Loader.Datasets(), func(d dataset.Dataset) bool { return d.Name == of }) {
			return policy.Rights{}, err
		}
		d = dataset.Dataset{Training: dataset.Training{Table: of}}
		var may bool
		if rights, may = s.policy().Inline(c.caller, d); !may {
			return policy.Rights{}, err
		}
	}
	if rights.Limits(d) {
		return policy.Rights{}, fault.New(fault.Forbidden, "this client may not read all of %s, whose keys only_keys_of would show", of).
			WithRemedy("stage the rows without only_keys_of")
	}
	return rights, nil
}

// permitLike returns the caller's rights to a table that a new one is laid out like: one that the caller writes to, or all columns of
// which it may read, by a right to tables or to a dataset. Otherwise it returns an error. With guesses of names of its own, a caller
// could find out the columns by which a table is partitioned.
func (s *Server) permitLike(c *call, table string) (policy.Rights, error) {
	now, who := s.policy(), c.caller
	if now.Write(who, table, policy.Stage) {
		return policy.Rights{}, nil
	}
	rights, reads := now.Inline(who, dataset.Dataset{Training: dataset.Training{Table: table}})
	if reads && len(rights.Of(table).Withheld) == 0 {
		return rights, nil
	}
	for _, d := range s.options.Loader.Datasets() {
		of, may := now.Read(who, d.Name)
		if !may || !now.Has(d, table) {
			continue
		}
		if reads = true; len(of.Of(table).Withheld) == 0 {
			return policy.Rights{}, nil // the operator has named the table so
		}
	}
	if reads {
		return policy.Rights{}, fault.New(fault.Forbidden, "this client may not read all columns of %s, whose layout like would show", fault.Shorten(table, maxAudited)).
			WithRemedy("name the number of buckets instead of like")
	}
	return policy.Rights{}, fault.New(fault.NotFound, "there is no table %s that this client may read or write", fault.Shorten(table, maxAudited)).
		WithRemedy("name the number of buckets")
}
