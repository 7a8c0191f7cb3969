package flight

import (
	"context"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/penstock/penstock/flight/access"
	"github.com/penstock/penstock/flight/call"
	"github.com/penstock/penstock/flight/failure"
	"github.com/penstock/penstock/flight/progress"
	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/jsontext"
	"github.com/penstock/penstock/loader/catalog/history"
	"github.com/penstock/penstock/loader/dataset/decode"
	"github.com/penstock/penstock/loader/policy"
	"github.com/penstock/penstock/loader/tablediff"
)

// TableHistory reads the metadata of tables. It is safe for concurrent use.
type TableHistory interface {
	// TableNames returns the sorted names, as queries use them, of the tables of all catalogs, or
	// of the catalog or namespace within, or the name of the table within.
	TableNames(ctx context.Context, within string) ([]string, error)
	// History returns the snapshots of a table. Their memory is charged to held.
	History(ctx context.Context, table string, held *budget.Reservation) (*history.Table, error)
}

// Differ compares snapshots of tables. It is safe for concurrent use.
type Differ interface {
	// Diff calls progress from time to time with the number of rows that were read and the number
	// of all rows to read.
	Diff(ctx context.Context, request decode.DiffCommand, progress func(read, all int64)) (*tablediff.Result, error)
}

// Limits of a list of tables.
const (
	maxTablesListed = 2000
	tablesAtOnce    = 8 // whose metadata is read at the same time
	descriptionSize = 512
)

// historian serves the actions that read the metadata of tables.
type historian struct {
	tables TableHistory // nil: there are no such actions
	guard  *access.Guard
	budget *budget.Budget
}

// actions returns the actions.
func (h historian) actions() []call.Action {
	if h.tables == nil {
		return nil
	}
	return []call.Action{
		{Name: "tables", Description: "List the tables of the catalogs that the caller may read. Body: {within} as JSON, a catalog, a namespace or a table, or nothing for all. Result: JSON.", Needs: policy.Reading, Run: call.Answering(h.listTables)},
		{Name: "log", Description: "List the snapshots of a table, and which of them can be taken back. Body: {table, branch, limit} as JSON. Result: JSON.", Needs: policy.Reading, Run: call.Answering(h.tableLog)},
	}
}

// tableList is the result of the action tables.
type tableList struct {
	Tables []history.Description `json:"tables"`
}

// listTables describes the tables that the caller may read.
func (h historian) listTables(ctx context.Context, c *call.Call, body []byte) ([]byte, error) {
	asked, err := decode.Tables(body)
	if err != nil {
		return nil, err
	}
	all, err := h.tables.TableNames(ctx, asked.Within)
	if err != nil {
		return nil, err
	}
	var names []string
	var rights []access.TableAccess
	for _, name := range all {
		if may := h.guard.TableAccess(c, name); may != access.HiddenTable {
			names, rights = append(names, name), append(rights, may)
		}
	}
	switch {
	case len(names) > maxTablesListed:
		return nil, fault.New(fault.Invalid, "there are %d tables, more than the %d that are listed at once", len(names), maxTablesListed).
			WithRemedy("name a catalog or a namespace")
	case len(names) == 0 && asked.Within != "":
		return nil, fault.New(fault.NotFound, "there is no table %s, and no table in a namespace or catalog of that name, that may be read", fault.Shorten(asked.Within, call.MaxName)).
			WithRemedy("list the tables of all catalogs: penstock tables")
	}
	held, err := h.budget.Reserve("a list of tables", int64(len(names)*descriptionSize))
	if err != nil {
		return nil, err
	}
	defer held.Release()
	out := tableList{Tables: make([]history.Description, len(names))}
	group, grouped := errgroup.WithContext(ctx)
	group.SetLimit(tablesAtOnce)
	for i, name := range names {
		group.Go(func() (err error) {
			out.Tables[i], err = h.describeTable(grouped, name, rights[i])
			out.Tables[i].Datasets = h.guard.DatasetsOf(c, name)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, failure.Cause(ctx, err)
	}
	return jsontext.Of(out), nil
}

// describeTable describes one table of a list. The description of a table that cannot be read is
// the error, which names files and values only if the caller may read the whole table.
func (h historian) describeTable(ctx context.Context, name string, may access.TableAccess) (history.Description, error) {
	held, err := h.budget.Reserve("the snapshots of table "+name, 0)
	if err != nil {
		return history.Description{}, err
	}
	defer held.Release()
	t, err := h.tables.History(ctx, name, held)
	switch {
	case ctx.Err() != nil:
		return history.Description{}, err
	case err != nil:
		out := history.Description{Table: name, Partition: []string{}, Withheld: may != access.WholeTable, Error: "it cannot be read"}
		if may == access.WholeTable {
			out.Error = strings.Join(strings.Fields(fault.Redact(fault.As(err).Error())), " ")
		}
		return out, nil
	}
	return t.Describe(may == access.WholeTable), nil
}

// tableLog lists the snapshots of a branch of a table.
func (h historian) tableLog(ctx context.Context, c *call.Call, body []byte) ([]byte, error) {
	asked, err := decode.Log(body)
	if err != nil {
		return nil, err
	}
	if err := h.guard.PermitHistory(c, asked.Table); err != nil {
		return nil, err
	}
	held, err := h.budget.Reserve("the snapshots of table "+asked.Table, 0)
	if err != nil {
		return nil, err
	}
	defer held.Release()
	t, err := h.tables.History(ctx, asked.Table, held)
	if err != nil {
		return nil, h.guard.DisclosedTable(c, asked.Table, err)
	}
	if err := held.Grow(int64(descriptionSize * len(t.Snapshots))); err != nil {
		return nil, err
	}
	out, err := t.LogOf(asked.Branch, asked.Limit, t.Demotable())
	if err != nil {
		return nil, err
	}
	if err := h.guard.PermitHistory(c, asked.Table); err != nil { // the policy may have changed meanwhile
		return nil, err
	}
	return jsontext.Of(out), nil
}

// diff compares two snapshots of a table. Unless only files are compared, it reads as much as a
// stream.
func (s *service) diff(ctx context.Context, c *call.Call, body []byte, to *progress.Sender) ([]any, error) {
	asked, err := decode.Diff(body)
	if err != nil {
		return nil, err
	}
	to.Wanted(asked.Progress)
	if err := s.guard.PermitDiff(c, asked.Table); err != nil {
		return nil, err
	}
	var found *tablediff.Result
	compare := func(ctx context.Context) error {
		if err := s.guard.PermitDiff(c, asked.Table); err != nil { // the policy may have changed while the call waited
			return err
		}
		c.Note.Diff()
		ctx, entered := s.options.Budget.Enter(ctx, c.Client())
		defer entered.Release()
		var err error
		found, err = s.options.Differ.Diff(ctx, asked, func(read, all int64) {
			to.At(progress.Message{Step: "read", Counts: progress.Counts{RowsRead: read, OfRowsRead: all}})
		})
		return err
	}
	if asked.OnlyFiles {
		err = compare(ctx)
	} else {
		err = s.asStream(ctx, c, compare)
	}
	if changed := s.guard.PermitDiff(c, asked.Table); changed != nil {
		return nil, changed
	}
	if err != nil {
		return nil, s.guard.DisclosedTable(c, asked.Table, failure.Cause(ctx, err))
	}
	rows := int64(0)
	if found.Keys != nil {
		rows = found.Keys.RowsBefore + found.Keys.RowsAfter
	}
	c.Note.Differed(found.Table, []int64{found.From.Snapshot, found.To.Snapshot}, rows)
	return []any{found}, nil
}
