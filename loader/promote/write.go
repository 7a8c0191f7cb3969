package promote

import (
	"context"
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/parquet/extend"
	"github.com/penstock/penstock/internal/parquet/write"
	"github.com/penstock/penstock/internal/store"
	"github.com/penstock/penstock/loader"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/catalog/commit"
	"github.com/penstock/penstock/loader/stream"
	"github.com/penstock/penstock/loader/upload"
)

// sampleRows is the number of rows from which encodings are chosen.
const sampleRows = 20_000

// rewritten is a file with the new columns, and the file that it replaces.
type rewritten struct {
	old      catalog.File
	location string
	made     write.WrittenFile
}

// runRewriter writes the files of one run.
type runRewriter struct {
	*promoting
	values *valuePlan
	files  PromotedFiles
	stream loader.Stream
	batch  arrow.RecordBatch // the rest of the last batch of the stream; nil: none
	held   *budget.Reservation
	choice *write.EncodingChoice
	done   []rewritten
	tried  []string // locations of files that are or may be complete
}

// writtenRun has the files of a run, and the match counts of its rows by entry.
type writtenRun struct {
	files   []rewritten
	matches map[string]stream.StagingReport
}

// rewriteRun writes the files of a run. It discards them after an error.
func (p *promoting) rewriteRun(ctx context.Context, values *valuePlan, files PromotedFiles, run splitRun) (out writtenRun, err error) {
	ctx, entered := p.options.Budget.Enter(ctx, "promote")
	defer entered.Release()
	held, err := p.options.Budget.Reserve("data files that are written", 0)
	if err != nil {
		return out, err
	}
	defer held.Release()
	w := &runRewriter{promoting: p, values: values, files: files, held: held, choice: &write.EncodingChoice{}}
	if w.stream, err = values.loader.Open(ctx, values.Planned, loader.StreamOptions{Part: run.part}); err != nil {
		return out, err
	}
	defer w.stream.Release()
	err = w.all(ctx, run)
	if w.batch != nil {
		w.batch.Release()
	}
	if err != nil {
		discard(ctx, files, w.tried)
		return out, err
	}
	return writtenRun{w.done, w.stream.Report().Staging}, nil
}

// all writes all files of a run, and returns an error if the stream has more or fewer rows.
func (w *runRewriter) all(ctx context.Context, run splitRun) error {
	for _, f := range run.files {
		if err := w.file(ctx, f); err != nil {
			return fault.Op(err, "add columns to file %s", f.Location)
		}
	}
	more, err := w.next()
	if err == nil && more {
		err = fault.New(fault.Internal, "the join returned more rows than the files have")
	}
	return err
}

// next ensures that w.batch has rows. It returns false at the end of the stream.
func (w *runRewriter) next() (bool, error) {
	for w.batch == nil {
		if !w.stream.Next() {
			return false, w.stream.Err()
		}
		if b := w.stream.RecordBatch(); b.NumRows() > 0 {
			b.Retain()
			w.batch = b
		}
	}
	return true, nil
}

// file writes the replacement of a file.
func (w *runRewriter) file(ctx context.Context, f catalog.File) error {
	from, err := w.tables.Open(ctx, w.state.Table, f.Location, f.Bytes)
	if err != nil {
		return err
	}
	defer from.Close() //nolint:errcheck // it was only read
	// Each attempt has its own names, because the files of another attempt may be in the table.
	number := fmt.Sprintf("%s-%05d", commit.AttemptName(), len(w.tried))
	location := w.folderOf(f.Location) + "/" + w.replacementName(f, w.prefix, number)
	to, err := w.files.Begin(ctx, location, upload.ReserveParts(w.options.Budget))
	if err != nil {
		return err
	}
	w.tried = append(w.tried, location)
	made, err := w.copy(ctx, to, from, f)
	if err == nil {
		err = to.Finish(ctx)
	}
	if err != nil {
		end, cancel := upload.AfterFailure(ctx)
		defer cancel()
		_ = to.Abort(end)
		return err
	}
	w.done = append(w.done, rewritten{f, location, made})
	w.progress.update(func(now *PromotionProgress) {
		now.FilesDone++
		now.Rows += made.Rows
		now.BytesWritten += made.Bytes
	})
	return nil
}

// copy copies a file and adds the next rows of the stream to it.
func (w *runRewriter) copy(ctx context.Context, to store.Upload, from store.Object, f catalog.File) (write.WrittenFile, error) {
	options := w.columnOptions(w.definition)
	options.Write.Choice, options.Write.Memory = w.choice, w.held
	out, err := extend.AddColumns(ctx, upload.NewDestination(to, w.options.Budget), from, options)
	if err != nil {
		return write.WrittenFile{}, err
	}
	defer out.Release()
	for left := f.Rows; left > 0; {
		more, err := w.next()
		if err != nil {
			return write.WrittenFile{}, err
		}
		if !more {
			return write.WrittenFile{}, fault.New(fault.Internal, "the join returned %d rows less than the file has", left)
		}
		n := min(left, w.batch.NumRows())
		if err := w.add(ctx, out, n); err != nil {
			return write.WrittenFile{}, err
		}
		left -= n
	}
	made, err := out.Close(ctx)
	if err == nil {
		err = sameRows(f, made.Rows)
	}
	return made, err
}

// add writes the first n rows of the batch to a file, and keeps the rest.
func (w *runRewriter) add(ctx context.Context, out *write.DataWriter, n int64) error {
	columns := make([]arrow.Array, len(w.values.at))
	for i, at := range w.values.at {
		columns[i] = array.NewSlice(w.batch.Column(at), 0, n)
		defer columns[i].Release()
	}
	rows := array.NewRecordBatch(w.schemaOf(w.batch), columns, n)
	defer rows.Release()
	rest := arrow.RecordBatch(nil)
	if n < w.batch.NumRows() {
		rest = w.batch.NewSlice(n, w.batch.NumRows())
	}
	w.batch.Release()
	w.batch = rest
	return out.Write(ctx, rows)
}

// schemaOf returns the schema of the new columns in a batch.
func (w *runRewriter) schemaOf(b arrow.RecordBatch) *arrow.Schema {
	fields := make([]arrow.Field, len(w.values.at))
	for i, at := range w.values.at {
		fields[i] = b.Schema().Field(at)
	}
	return arrow.NewSchema(fields, nil)
}

// discard removes files that belong to no table. Errors are ignored: orphan files are harmless and
// recognized by name.
func discard(ctx context.Context, files PromotedFiles, locations []string) {
	ctx, cancel := upload.AfterFailure(ctx)
	defer cancel()
	for _, location := range locations {
		_ = files.Remove(ctx, location)
	}
}
