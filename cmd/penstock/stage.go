package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/spf13/cobra"

	"github.com/penstock/penstock/cmd/penstock/client"
	"github.com/penstock/penstock/cmd/penstock/cmdline"
	"github.com/penstock/penstock/cmd/penstock/compute"
	"github.com/penstock/penstock/cmd/penstock/duckdb"
	"github.com/penstock/penstock/cmd/penstock/engine"
	"github.com/penstock/penstock/cmd/penstock/inputs"
	"github.com/penstock/penstock/flight/progress"
	"github.com/penstock/penstock/internal/config"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/spool"
	tablecommit "github.com/penstock/penstock/loader/catalog/commit"
	"github.com/penstock/penstock/loader/datafile"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/dataset/decode"
	"github.com/penstock/penstock/loader/stage"
	"github.com/penstock/penstock/loader/staged"
)

func stageCommand(p process) *cobra.Command {
	c := &cobra.Command{
		Use: "stage TABLE FILE…", Short: "Write the rows of files, of another table, or of SQL, to a staging table",
		Long: "Write rows to a staging table in one commit, sorted and bucketed like the table. The rows come from Parquet, CSV,\n" +
			"JSON lines or Arrow files. A FILE is a local file, a folder (read with all folders below it), a location on S3\n" +
			"(s3://bucket/folder/), or a quoted pattern of these. Folders such as day=2026-01-01 add a column.\n" +
			"The FILE - is standard input. With --from-table, the rows are those of another table, at one snapshot.\n" +
			"With --sql, DuckDB computes the rows from tables of the catalogs and files.\n\n" +
			"Columns are matched by name: int is widened to long and float to double, optional columns that the\n" +
			"files lack are null, and everything else that differs is an error.\n\n" +
			"A table that does not exist is created if --key and --buckets or --like are given. Its\n" +
			"catalog must allow writes to its namespace (docs/changes.md).\n\n" +
			"A repeated call writes nothing, and prints the snapshot that has the rows; --again writes them once more.\n" +
			"Calls with the same --token make one change, whatever their rows are.",
		Example: "  penstock stage features.history day-*.parquet --config penstock.yaml\n" +
			"  penstock stage features.history s3://lake/history/ --config penstock.yaml\n" +
			"  penstock stage features.history --from-table ml.raw_history --filter \"day = '2026-11-01'\" --config penstock.yaml\n" +
			"  penstock stage features.users --sql \"SELECT user_id, count(*) AS views FROM ml.impressions GROUP BY 1\" --key user_id --buckets 16 --config penstock.yaml\n" +
			"  penstock stage features.embedding new.parquet --key request_id --like ml.impressions --config penstock.yaml",
		Args: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return cmdline.Errorf("%s needs a table and at least one file or folder", c.CommandPath())
			}
			return nil
		},
	}
	flags := newChangeFlags(c)
	call := stageCall{TableWrite: dataset.TableWrite{Progress: true}, created: &atomic.Pointer[string]{}}
	cmdline.AddFields(c, &call.TableWrite, dataset.WriteFields())
	call.inputFlags(c, p.stdin)
	call.from.sourceTableFlags(c)
	c.Flags().BoolVar(&call.asJSON, "json", false, "print the result as JSON")
	c.RunE = func(c *cobra.Command, args []string) error {
		call.Table, call.files, call.source = args[0], args[1:], flags.text()
		if err := call.from.check(call.fileFlags); err != nil {
			return err
		}
		if err := call.check(); err != nil {
			return cmdline.Error{Err: err}
		}
		if uri, err := p.serverOf(flags.sourceFlags); err != nil || uri {
			if err != nil {
				return err
			}
			return p.change(c, flags, args[0], func(ctx context.Context, s *client.Client, g *commandProgress) error {
				return p.stageRemotely(ctx, s, call, g)
			})
		}
		g, err := p.progressOf(*flags.progress, "stage", args[0])
		if err != nil {
			return err
		}
		created := func(catalog, file string) {
			text := fmt.Sprintf("created catalog %s, the file %s\n", catalog, file)
			call.created.Store(&text)
		}
		return g.end(p.withConfig(c.Context(), *flags.config, created, func(ctx context.Context, _ *config.Config, e *engine.Engine) error {
			return p.stage(ctx, e, call, g)
		}))
	}
	return c
}

// stageCall holds the arguments and flags of a stage command.
type stageCall struct {
	dataset.TableWrite
	fileFlags
	from   tableFlags
	source string // the result of sourceFlags.text
	asJSON bool
	// created has the line about the catalog that the command created, if any
	created *atomic.Pointer[string]
}

// check returns an error if a server would refuse the command, for example because the name of the
// table is invalid.
func (c stageCall) check() error {
	if err := c.Check(); err != nil { // before decode.Stage, because these errors name flags
		return err
	}
	text, err := json.Marshal(map[string]any{"stage": c.TableWrite})
	if err == nil {
		_, err = decode.Stage(text)
	}
	return err
}

// stage stages rows in process and prints the result.
func (p process) stage(ctx context.Context, e *engine.Engine, call stageCall, g *commandProgress) error {
	ctx, entered := e.Budget.Enter(ctx, "stage")
	defer entered.Release()
	all := &inputRows{}
	rows, err := call.localRows(ctx, e, all)
	if err != nil {
		return err
	}
	defer rows.Release()
	report := g.staging(all)
	o := e.StageOptions(call.Table)
	o.Progress = func(at datafile.Progress) { report(progress.OfWrite(at)) }
	if call.OnlyKeysOf != "" {
		g.step("keys")
		o.OnlyKeys = staged.Keys{Datasets: e.Datasets(), Of: call.OnlyKeysOf, Staged: call.Table}.Read
	}
	var before map[string]error
	if call.ChecksReaders() {
		before = e.PlanReaders(ctx, call.Table)
	}
	out, err := e.Stager(1).Stage(ctx, o, call.TableWrite, rows)
	if err != nil {
		return err
	}
	if out.Snapshot != 0 && call.ChecksReaders() {
		out.Readers = e.CheckReaders(ctx, call.TableWrite, out, before)
	}
	return p.printStaged(call, out, unreadText(true, call.Table))
}

// localRows returns the rows to stage in process. The caller releases them.
func (c *stageCall) localRows(ctx context.Context, e *engine.Engine, all *inputRows) (array.RecordReader, error) {
	if *c.from.sql != "" {
		return c.sqlRows(ctx, localTables{e}, e.SQL(all.add))
	}
	return c.computedRows(e.Budget, func(computed []compute.Column) (array.RecordReader, error) {
		if *c.from.table != "" {
			return c.from.rows(ctx, localTables{e}, computed, all.add)
		}
		return c.rows(ctx, inputs.Options{
			Budget: e.Budget, Remote: e.Tables.InputStorage(c.Table), Opened: all.add,
			Types: func(ctx context.Context) ([]arrow.Field, error) { return e.Tables.ColumnTypes(ctx, c.Table) },
		})
	})
}

// remoteRows returns the rows to send to a server. The caller releases them.
func (c *stageCall) remoteRows(ctx context.Context, s *client.Client, all *inputRows) (array.RecordReader, error) {
	if *c.from.sql != "" {
		disk, err := spool.Open(spool.Options{}) // the settings of the server are not known
		if err != nil {
			return nil, err
		}
		return c.sqlRows(ctx, remoteTables{s}, duckdb.RowsOptions{Spool: disk, Opened: all.add})
	}
	return c.computedRows(nil, func(computed []compute.Column) (array.RecordReader, error) {
		if *c.from.table != "" {
			return c.from.rows(ctx, remoteTables{s}, computed, all.add)
		}
		return c.rows(ctx, inputs.Options{Remote: engine.EnvironmentStorage(), Opened: all.add})
	})
}

// stageRemotely sends rows to a server and prints the result.
func (p process) stageRemotely(ctx context.Context, s *client.Client, call stageCall, g *commandProgress) error {
	all := &inputRows{}
	rows, err := call.remoteRows(ctx, s, all)
	if err != nil {
		return err
	}
	defer rows.Release()
	call.TableWrite = call.Named(tablecommit.NewToken(p.clock(), "")) // the token is chosen here, so that a failure can name it
	out, err := s.Stage(ctx, call.TableWrite, rows, g.staging(all))
	if err != nil && (fault.KindOf(err) == fault.Unavailable || ctx.Err() != nil) {
		p.note("  → repeat the command with --token %s: if this one has written the rows, it writes nothing\n", call.Token)
	}
	if err != nil {
		return err
	}
	return p.printStaged(call, out, unreadText(false, call.Table))
}

// printStaged prints the result of a stage. unread says that there are no readers to check.
func (p terminal) printStaged(call stageCall, out stage.WriteResult, unread string) error {
	text := stageText(call.TableWrite, out) + readersText(out.Readers, unread)
	if created := call.created.Load(); created != nil {
		text = *created + text
	}
	if out.Snapshot != 0 && !out.Existed {
		text += undoText(madeBy(call.TableWrite, out), call.source)
	}
	made := fmt.Sprintf("the rows are committed in snapshot %d of table %s", out.Snapshot, call.Table)
	back := "the rows back: " + undoLine(madeBy(call.TableWrite, out)) + call.source
	return errors.Join(p.printResult(call.asJSON, out, text), brokenReaders(out.Readers, made, back))
}

// stageText describes a result.
func stageText(request dataset.TableWrite, r stage.WriteResult) string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	switch {
	case r.Existed:
		line("snapshot %d of table %s has the rows already: nothing was written", r.Snapshot, request.Table)
		line("token %s", r.Token)
		if request.Once() {
			line("to write them once more: --again")
		}
		if len(r.Readers) > 0 {
			line("at that snapshot, which later changes may have replaced:")
		}
		return b.String()
	case request.DryRun:
		line("dry run: nothing was written to table %s", request.Table)
	case r.Snapshot == 0:
		line("there are no rows: nothing was written to table %s", request.Table)
		return b.String()
	default:
		line("snapshot %d of table %s", r.Snapshot, request.Table)
	}
	line("rows %d, in %s", r.Rows, fault.Count(r.Partitions, "partition"))
	if !request.DryRun {
		line("files %d, %s", r.Files, fault.Size(r.Bytes))
	}
	if r.Created {
		line("the table is new")
		line("partitioned by %s", strings.Join(r.Partition, ", "))
	}
	if len(r.Taken) > 0 {
		line("as table %s is: %s", request.Like, strings.Join(r.Taken, ", "))
	}
	if len(r.Added) > 0 {
		line("new columns: %s", strings.Join(r.Added, ", "))
	}
	if r.Removed > 0 {
		line("files replaced: %d, with %s before and %d now", r.Removed, fault.Count(r.RemovedRows, "row"), r.Rows)
	}
	switch {
	case request.OnlyKeysOf != "":
		line("rows dropped, whose key no training row has: %d, of them with a null in the key: %d", r.Dropped, r.NullKeys)
	case r.NullKeys > 0:
		line("rows with a null in the key, which match nothing: %d", r.NullKeys)
	}
	if r.KeysUnchecked {
		line("keys not checked: no dataset reads the table, and the table does not record its key; name the key with --key to refuse rows that repeat it")
	}
	line("token %s", r.Token)
	return b.String()
}

// madeBy returns the move of a branch that a stage command has caused.
func madeBy(request dataset.TableWrite, r stage.WriteResult) client.Move {
	out := client.Move{Table: request.Table, Branch: request.Branch, From: r.Parent, To: r.Snapshot}
	if r.Branched {
		out.From = 0
	}
	return out
}

// fileFlags holds the files to read and the flags for reading them.
type fileFlags struct {
	files           []string
	stdin           io.Reader
	stdinFormat     *string
	schema          *string // the types of columns, as inputs.ParseTypes reads them
	noFolderColumns bool
}

// inputFlags adds the flags for reading files.
func (s *fileFlags) inputFlags(c *cobra.Command, stdin io.Reader) {
	s.stdin = stdin
	s.stdinFormat = cmdline.Text(c, "input-format", "arrow|csv|jsonl", "the format of standard input, which is read for the FILE - (default: arrow)")
	s.schema = cmdline.Text(c, "schema", "TYPES", "the types of columns of CSV files, JSON lines and folders, as in 'id: long, price: decimal(9,2)' (default: the table's)")
	c.Flags().BoolVar(&s.noFolderColumns, "no-folder-columns", false, "do not read columns from the names of folders such as day=2026-01-01")
}

// rows returns the rows of the files. The caller releases them. A column has its type in --schema
// or, if --schema does not name the column, its type in o.Types.
func (s *fileFlags) rows(ctx context.Context, o inputs.Options) (array.RecordReader, error) {
	given, err := inputs.ParseTypes(*s.schema)
	if err != nil {
		return nil, err
	}
	if f := *s.stdinFormat; f != "" && f != "arrow" && f != "csv" && f != "jsonl" {
		return nil, cmdline.Errorf("--input-format %s: want arrow, csv or jsonl", f)
	}
	stdin := s.stdin
	if slices.Contains(s.files, "-") {
		stdin = until(ctx, stdin)
	}
	o.Stdin, o.StdinFormat = bufio.NewReader(stdin), *s.stdinFormat
	o.Threads, o.NoFolderColumns = runtime.GOMAXPROCS(0), s.noFolderColumns
	known := o.Types
	o.Types = func(ctx context.Context) ([]arrow.Field, error) {
		if known == nil {
			return given, nil
		}
		table, err := known(ctx)
		if err != nil {
			return nil, err
		}
		others := slices.DeleteFunc(table, func(f arrow.Field) bool {
			return slices.ContainsFunc(given, func(g arrow.Field) bool { return g.Name == f.Name })
		})
		return append(others, given...), nil
	}
	files, err := inputs.Find(ctx, s.files, o)
	if err != nil {
		return nil, err
	}
	return inputs.Open(ctx, files, o)
}

// until returns a reader of the same bytes as from. When ctx ends, reads of the returned reader
// fail, even while a read of from blocks. A goroutine reads from, possibly more bytes than the
// caller reads.
func until(ctx context.Context, from io.Reader) io.Reader {
	r, w := io.Pipe()
	context.AfterFunc(ctx, func() { _ = w.CloseWithError(ctx.Err()) })
	go func() {
		_, err := io.Copy(w, from)
		_ = w.CloseWithError(err) // a nil error ends the pipe with io.EOF
	}()
	return r
}

// inputRows estimates the number of rows of all files from the numbers of rows of the files opened
// so far. It is safe for concurrent use.
type inputRows struct {
	mu     sync.Mutex
	rows   int64 // the sum for the files opened so far
	opened int
	left   int // files that are not open yet
}

// add records that a file was opened, and how many files are not open yet.
func (r *inputRows) add(rows int64, left int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.rows, r.opened, r.left = r.rows+rows, r.opened+1, left
}

// all returns the estimated number of rows of all files. It assumes that the other files have as
// many rows on average as the opened files.
func (r *inputRows) all() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.rows + r.rows*int64(r.left)/int64(max(r.opened, 1))
}

// staging returns a function that reports the progress of a stage command, with the estimated
// number of rows.
func (g *commandProgress) staging(rows *inputRows) func(progress.Message) {
	return func(now progress.Message) {
		now.OfRowsRead = rows.all()
		g.report(now)
	}
}
