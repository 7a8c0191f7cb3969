package stage

import (
	"cmp"
	"context"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/conform"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/catalog/commit"
	"github.com/penstock/penstock/loader/extsort"
)

// Stage writes rows to a table as one change. It borrows the reader, and reads no row if the change
// was made before. If ctx comes from Budget.Enter, Stage waits for memory; otherwise it fails at
// once.
//
// Errors: Invalid if the columns do not fit the table, NotFound for an unknown table that the
// request does not say how to create, Forbidden for a table that may not be written to,
// Conflict and Expired as commit.Committer has them, Exhausted if memory or local disk is not
// enough, Unavailable if storage or the catalog fails. After an error for which
// commit.Uncertain is true the call may be repeated with the same token: the remedy names it.
func (s *Stager) Stage(ctx context.Context, request TableWrite, rows array.RecordReader) (WriteResult, error) {
	request.Branch = cmp.Or(request.Branch, commit.Main)
	fresh := request.Token == ""
	request.Token = cmp.Or(request.Token, commit.NewToken(s.options.Clock(), ""))
	out, err := s.stage(ctx, request, rows, fresh)
	return out, fault.Op(repeatable(err, repeatToken(request.Token)), "stage rows to table %s", request.Table)
}

// repeatable returns an error with a remedy, if it is uncertain whether the change was made.
func repeatable(err error, remedy string) error {
	if !commit.Uncertain(err) {
		return err
	}
	e := *fault.As(err)
	e.Remedy = remedy
	return &e
}

// repeatToken is the remedy of calls with a token.
func repeatToken(token string) string {
	return "repeat the call with token " + token + ": it makes the change if it was not made, and not twice"
}

// staging is one call of Stage.
type staging struct {
	*Stager
	request TableWrite
	fresh   bool // the token was made for this call
	tables  WritableTables
	input   *arrow.Schema
	target  *target
	result  WriteResult
	read    int64 // rows
	bytes   int64 // of these rows in memory
}

func (s *Stager) stage(ctx context.Context, request TableWrite, rows array.RecordReader, fresh bool) (WriteResult, error) {
	tables, name, err := s.options.Route(request.Table)
	if err != nil {
		return WriteResult{}, err
	}
	request.Table = name
	c := &staging{Stager: s, request: request, fresh: fresh, tables: tables, input: rows.Schema(), result: WriteResult{Token: request.Token}}
	if made, err := c.made(ctx); made || err != nil {
		return c.result, err
	}
	if c.target, err = c.find(ctx); err != nil {
		return c.result, err
	}
	sorted, err := c.sort(ctx, rows)
	if err != nil {
		return c.result, err
	}
	defer sorted.Release()
	return c.result, c.write(ctx, sorted)
}

// made reports whether the change was made before. It returns an error for a table that may
// not be written to.
func (c *staging) made(ctx context.Context) (bool, error) {
	if err := commit.CheckToken(c.request.Token, c.options.Clock()); err != nil {
		return false, err
	}
	made, ok, err := c.tables.Made(ctx, c.request.Table, c.request.Branch, c.request.Token)
	switch kind := fault.KindOf(err); {
	case kind == fault.NotFound: // the table or the branch is new
		return c.madeInMain(ctx)
	case kind == fault.Expired && c.fresh:
		return false, nil
	case ok:
		c.committed(made)
	}
	return ok, err
}

// madeInMain reports whether main has the change, for a branch that does not exist. The branch would begin at main, and so have
// the change without another commit: it is created there.
func (c *staging) madeInMain(ctx context.Context) (bool, error) {
	if c.request.Branch == commit.Main {
		return false, nil
	}
	made, ok, err := c.tables.Made(ctx, c.request.Table, commit.Main, c.request.Token)
	if kind := fault.KindOf(err); kind == fault.NotFound || kind == fault.Expired && c.fresh {
		return false, nil
	}
	if err != nil || !ok {
		return false, err
	}
	if !c.request.DryRun {
		state, err := c.tables.State(ctx, c.request.Table, commit.Main)
		if err == nil {
			err = c.tables.Move(ctx, commit.Move{Table: c.request.Table, UUID: state.Table.Pin.UUID, Ref: c.request.Branch, To: state.Table.Pin.Snapshot})
		}
		if err != nil {
			return false, err
		}
	}
	made.Began = true
	c.committed(made)
	return true, nil
}

// committed records the snapshot of the result, which has no counts of rows that an earlier call wrote.
func (c *staging) committed(made commit.Committed) {
	if r := &c.result; made.Existed {
		r.Rows, r.NullKeys, r.Dropped, r.Partitions, r.Files, r.Bytes, r.Removed = 0, 0, 0, 0, 0, 0, 0
	}
	c.result.Snapshot, c.result.Parent, c.result.Existed, c.result.Branched = made.Snapshot, made.Parent, made.Existed, made.Began
}

// sort reads all rows and sorts them by partition and key.
func (c *staging) sort(ctx context.Context, rows array.RecordReader) (*extsort.Sorted, error) {
	options := extsort.Options{
		Budget: c.options.Budget, Memory: c.options.Memory, Disk: c.options.Disk, Threads: c.options.Threads,
		BatchBytes: c.options.share(sampleShare, minSample, maxSample), Readers: c.writers(),
	}
	if limit := c.options.Budget.Limit(); limit > 0 {
		options.WorkingMemory = limit / int64(c.options.Calls) / sortShare
	}
	if c.request.OnlyKeys != nil {
		keys, err := c.keys(ctx)
		if err != nil {
			return nil, err
		}
		defer keys.Release()
		options.Keys = keys
	}
	sorter, err := extsort.New(c.target.fitted, c.target.layout, options)
	if err != nil {
		return nil, err
	}
	defer sorter.Release()
	for rows.Next() {
		if err := c.add(ctx, sorter, rows.RecordBatch()); err != nil {
			return nil, err
		}
	}
	if err := rows.Err(); err != nil {
		return nil, err
	}
	sorted, err := sorter.Finish(ctx)
	if err != nil {
		return nil, err
	}
	counts := sorted.Counts()
	c.result.Rows, c.result.NullKeys, c.result.Dropped = counts.Rows-counts.Dropped, counts.NullKeys, counts.Dropped
	c.result.Partitions = len(sorted.Partitions())
	return sorted, nil
}

// keys returns the keys whose rows are kept.
func (c *staging) keys(ctx context.Context) (KeptKeys, error) {
	if len(c.target.layout.Key) == 0 {
		return nil, fault.InvalidField("key", "table %s has no buckets whose columns are the key", c.request.Table).
			WithRemedy("name the key, so that rows with other keys can be dropped")
	}
	conformed, err := conform.New(c.target.fitted)
	if err != nil {
		return nil, err
	}
	key := make([]arrow.Field, len(c.target.layout.Key))
	for i, at := range c.target.layout.Key {
		key[i] = conformed.Schema().Field(at)
	}
	return c.request.OnlyKeys(ctx, key)
}

// add adds the rows of a batch.
func (c *staging) add(ctx context.Context, sorter *extsort.Sorter, b arrow.RecordBatch) error {
	held, err := c.options.Budget.Reserve("rows to write", 0)
	if err != nil {
		return err
	}
	defer held.Release()
	if err := held.GrowWait(ctx, c.target.fitBytes(b)); err != nil {
		return err
	}
	fitted, err := c.target.fit(b, c.options.Memory)
	if err != nil {
		return err
	}
	defer fitted.Release()
	if err := sorter.Add(ctx, fitted); err != nil {
		return err
	}
	c.read, c.bytes = c.read+b.NumRows(), c.bytes+batch.Size(fitted)
	c.report(ReadRowsStep, 0)
	return nil
}

// report calls the request's Progress.
func (c *staging) report(step WriteStep, written int64) {
	if c.request.Progress != nil {
		c.request.Progress(WriteProgress{Step: step, RowsRead: c.read, RowsWritten: written, Files: c.result.Files, Bytes: c.result.Bytes})
	}
}

// write writes the sorted rows and commits them.
func (c *staging) write(ctx context.Context, sorted *extsort.Sorted) error {
	if len(sorted.Partitions()) == 0 {
		return nil // neither are columns added, nor is a table created
	}
	columns := c.target.added
	for _, column := range columns {
		c.result.Added = append(c.result.Added, column.Name)
	}
	if c.target.create != nil {
		c.result.Created, c.result.Added, columns = true, nil, nil
		if c.request.DryRun {
			return nil
		}
		if err := c.create(ctx); err != nil {
			return err
		}
	}
	removed, err := c.replaced(ctx, sorted.Partitions())
	c.result.Removed = len(removed)
	if err != nil || c.request.DryRun {
		return err
	}
	files, err := c.upload(ctx, sorted)
	if err != nil {
		return err
	}
	c.report(CommitFilesStep, files.written)
	change := commit.Change{
		Table: c.request.Table, UUID: c.target.state.Table.Pin.UUID, Branch: c.request.Branch, Token: c.request.Token, Fresh: c.fresh,
		Add: files.added, Columns: columns,
	}
	if c.target.branches {
		change.Begin = c.target.state.Table.Pin.Snapshot
	}
	made, err := c.commitFiles(ctx, change, files, removed, sorted.Partitions())
	if err != nil && commit.Uncertain(err) {
		return err
	}
	if err != nil || made.Existed {
		c.result.Files, c.result.Bytes = 0, 0
	}
	if err == nil {
		c.committed(made)
	}
	return err
}
