package stage

import (
	"cmp"
	"context"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/penstock/penstock/internal/conform"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/rowdigest"
	"github.com/penstock/penstock/loader/catalog/commit"
	"github.com/penstock/penstock/loader/datafile"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/extsort"
)

// Stage writes rows to a table as one change. It borrows the reader, and reads no row if an earlier
// call with the token made the change. If the request is to be made once and the branch has the rows from an earlier
// call, Stage writes nothing after it has read them. If memory is short, Stage waits if ctx comes from Budget.Enter, and fails
// otherwise.
//
// Errors: Invalid if the columns do not fit the table, NotFound for an unknown table if the request
// lacks the layout to create it, Forbidden for a table that may not be written to, Conflict and
// Expired as in commit.Committer, Exhausted if memory or local disk is insufficient, Unavailable if
// storage or the catalog fails. After an error for which commit.Uncertain is true, the call may be
// repeated with the same token, which the remedy contains.
func (s *Stager) Stage(ctx context.Context, o CallOptions, request dataset.TableWrite, rows array.RecordReader) (WriteResult, error) {
	request.Branch = cmp.Or(request.Branch, commit.Main)
	fresh := request.Token == ""
	request = request.Named(commit.NewToken(s.options.Clock(), ""))
	out, err := s.stage(ctx, o, request, rows, fresh)
	return out, fault.Op(commit.RepeatToken(err, request.Token), "stage rows to table %s", request.Table)
}

// staging is one call of Stage.
type staging struct {
	*Stager
	onlyKeys func(ctx context.Context, key []arrow.Field) (KeptKeys, error) // nil: keeps all rows
	readers  []DatasetReader
	request  dataset.TableWrite
	shown    string // the table's name in the caller's request; request.Table is its name in its catalog
	fresh    bool   // the token was made for this call
	stored   bool   // the rows are those of earlier files; see StoredRows
	tables   WritableTables
	input    *arrow.Schema
	rows     *datafile.Call
	target   *datafile.Target
	creates  *commit.NewTable // nil: the table exists
	empty    bool             // this call has created the table without a snapshot
	branches bool             // the branch is new and begins at the target's snapshot
	checks   []*keyCheck      // one for each set of columns whose values must be unique
	digest   *rowdigest.Rows  // digest of the kept rows
	added    commit.AddedRows // set after all rows are read, unless the request names the rows
	result   WriteResult
}

func (s *Stager) stage(ctx context.Context, o CallOptions, request dataset.TableWrite, rows array.RecordReader, fresh bool) (WriteResult, error) {
	if request.OnlyKeysOf != "" && o.OnlyKeys == nil {
		return WriteResult{}, fault.New(fault.Internal, "the keys of %s cannot be read", request.OnlyKeysOf)
	}
	tables, name, err := s.options.Route(request.Table)
	if err != nil {
		return WriteResult{}, err
	}
	shown := request.Table
	request.Table = name
	c := &staging{
		Stager: s, onlyKeys: o.OnlyKeys, readers: o.Readers, request: request, shown: shown, fresh: fresh, tables: tables, input: rows.Schema(),
		rows: datafile.NewCall(s.options.Rows, o.Progress), result: WriteResult{Token: request.Token}, added: namedRows(request),
	}
	if err := commit.CheckToken(request.Token, s.options.Clock()); err != nil {
		return c.result, err
	}
	if made, err := c.made(ctx); made || err != nil {
		return c.result, err
	}
	if c.target, err = c.find(ctx); err != nil {
		return c.result, err
	}
	if err := c.checkReaders(ctx, c.readers, c.target); err != nil {
		return c.result, err
	}
	if err := c.checkAdded(ctx, o.CheckAdded); err != nil {
		return c.result, err
	}
	if c.checks, err = c.newKeyChecks(); err != nil {
		return c.result, err
	}
	defer func() { releaseChecks(c.checks) }()
	sorted, err := c.sort(ctx, rows)
	if err != nil {
		return c.result, err
	}
	defer sorted.Release()
	if made, err := c.has(ctx, sorted); made || err != nil {
		return c.result, err
	}
	for _, k := range c.checks {
		if err := k.finish(ctx); err != nil {
			return c.result, fault.Op(err, "compare the keys of the rows")
		}
	}
	return c.result, c.write(ctx, sorted)
}

// find returns the target of the request: an existing or a planned table.
func (c *staging) find(ctx context.Context) (*datafile.Target, error) {
	state, err := c.tables.State(ctx, c.request.Table, commit.Main)
	if fault.KindOf(err) == fault.NotFound {
		return c.plan(ctx, err)
	}
	if err == nil && c.request.Branch != commit.Main {
		state, err = c.branch(ctx, state)
	}
	if err != nil {
		return nil, err
	}
	t, err := c.match(state)
	if err == nil {
		err = (&requestedLayout{request: c.request, route: c.options.Route}).agree(ctx, t)
	}
	return t, err
}

// branch returns the state of the branch, or main's state if the branch does not exist yet.
func (c *staging) branch(ctx context.Context, main *commit.TableState) (*commit.TableState, error) {
	state, err := c.tables.State(ctx, c.request.Table, c.request.Branch)
	switch {
	case fault.KindOf(err) != fault.NotFound:
		return state, err
	case !main.Table.HasSnapshot():
		return nil, fault.InvalidField("branch", "branch %s cannot begin at %s, which has no snapshot", c.request.Branch, commit.Main).
			In(c.request.Table, "").WithRemedy("stage the first rows to %s", commit.Main)
	}
	c.branches = true
	return main, nil
}

// match matches the columns of the rows to the table's columns.
func (c *staging) match(state *commit.TableState) (*datafile.Target, error) {
	t, err := datafile.Match(c.input, state, datafile.MatchOptions{Key: c.request.Key, Evolve: c.request.Evolve})
	if err == nil && c.request.Mode.Replaces() && !replaces(state.Table.Specs[state.Spec]) {
		err = onlyBuckets(c.request.Table)
	}
	return t, err
}

// sort reads all rows and sorts them by partition and key.
func (c *staging) sort(ctx context.Context, rows array.RecordReader) (*extsort.Sorted, error) {
	schema, err := conformed(c.target)
	if err != nil {
		return nil, err
	}
	if c.digest, err = rowdigest.New(schema); err != nil {
		return nil, err
	}
	var kept extsort.KeySet
	if c.onlyKeys != nil {
		keys, err := c.keys(ctx)
		if err != nil {
			return nil, err
		}
		defer keys.Release()
		kept = keys
	}
	sorted, err := c.rows.Sort(ctx, c.target, rows, datafile.SortOptions{Keys: kept, Each: c.each})
	if err != nil {
		return nil, err
	}
	counts := sorted.Counts()
	c.result.Rows, c.result.NullKeys, c.result.Dropped = counts.Rows-counts.Dropped, counts.NullKeys, counts.Dropped
	c.result.Partitions = len(sorted.Partitions())
	if counts.Rows > 0 && c.result.Rows == 0 {
		sorted.Release()
		return nil, allDropped(c.request, counts.Rows)
	}
	return sorted, nil
}

// each passes kept rows to the digest and to the key checks, in the order in which the rows are read.
func (c *staging) each(ctx context.Context, rows extsort.AddedRows) error {
	c.digest.Add(rows.Columns)
	for _, k := range c.checks {
		if err := k.add(ctx, rows); err != nil {
			return err
		}
	}
	return nil
}

// allDropped returns the error for a call whose rows were all dropped. Without the error, a key
// from the wrong column or in another format would look like a call without rows.
func allDropped(request dataset.TableWrite, rows int64) error {
	return fault.InvalidField("only_keys_of", "none of the %d rows has a key of a training row of %s: nothing was written", rows, request.OnlyKeysOf).
		In(request.Table, "").WithRemedy("compare the values of the key with those of the training rows")
}

// keys returns the keys of the rows to keep.
func (c *staging) keys(ctx context.Context) (KeptKeys, error) {
	if len(c.target.Layout.Key) == 0 {
		return nil, fault.InvalidField("key", "table %s has no buckets whose columns are the key", c.request.Table).
			WithRemedy("name the key, so that rows with other keys can be dropped")
	}
	conformed, err := conform.New(c.target.Fitted)
	if err != nil {
		return nil, err
	}
	key := make([]arrow.Field, len(c.target.Layout.Key))
	for i, at := range c.target.Layout.Key {
		key[i] = conformed.Schema().Field(at)
	}
	return c.onlyKeys(ctx, key)
}

// write writes the sorted rows and commits them.
func (c *staging) write(ctx context.Context, sorted *extsort.Sorted) (err error) {
	if len(sorted.Partitions()) == 0 {
		return nil // without rows, no column is added and no table created
	}
	c.result.KeysUnchecked = c.unknownKey()
	columns := c.target.Added
	for _, column := range columns {
		c.result.Added = append(c.result.Added, column.Name)
	}
	if c.creates != nil {
		c.result.Created, c.result.Added, columns = true, nil, nil
		if c.request.DryRun {
			return nil
		}
		if c.target.State.Table.Location == "" {
			if err := c.create(ctx); err != nil {
				return err
			}
			defer func() { err = c.leftEmpty(err) }()
		}
	}
	removed, err := c.replaced(ctx, sorted.Partitions())
	if err == nil {
		err = c.compareWithTable(ctx, c.target.State, removed, sorted.Partitions())
	}
	if err != nil {
		return c.unlessMade(ctx, err)
	}
	if c.request.DryRun {
		return nil
	}
	files, err := c.upload(ctx, sorted)
	if err != nil {
		return err
	}
	at := c.rows.Progress()
	c.result.Files, c.result.Bytes = at.Files, at.Bytes
	c.rows.Commits()
	change := c.change(c.request.Branch)
	change.UUID, change.Creates, change.Add, change.Columns = c.target.State.Table.Pin.UUID, c.creates, files.Added(), columns
	change.Summary = c.summary()
	if c.branches {
		change.Begin = c.target.State.Table.Pin.Snapshot
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

// summary returns the entries that the call adds to the summary of its snapshot.
func (c *staging) summary() map[string]string {
	out := map[string]string{commit.SummaryCommand: "stage"}
	if c.empty || c.creates != nil {
		out[commit.SummaryCreated] = "true"
	}
	return out
}

// upload writes all partitions as files. If it fails, it discards them.
func (c *staging) upload(ctx context.Context, sorted *extsort.Sorted) (*datafile.Files, error) {
	folder := c.target.State.DataFolder()
	store, err := c.tables.FileStore(ctx, c.request.Table, folder)
	if err != nil {
		return nil, err
	}
	files := c.rows.NewFiles(store, folder, c.request.Token, false)
	if err := files.Write(ctx, c.target, sorted); err != nil {
		files.Discard(ctx)
		return nil, err
	}
	return files, nil
}
