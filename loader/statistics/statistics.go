// Package statistics describes the values of a table's columns at a snapshot.
//
// Each data file is read once, without its deleted rows, and is described by a stats.Part. The parts are merged in an order
// that depends only on when the files were written and on their partitions, so that the result does not depend on which file
// was read first.
//
// The part of a file never changes. If there is a disk, parts are kept there, and files with a kept part are not read. A part
// is kept under the digest of everything that its rows depend on, and a state that is damaged is read anew from its file, so
// that kept parts never change a result.
//
// The package does not depend on the kinds of catalogs and storage: the caller passes functions that read them.
package statistics

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/cores"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/stats"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/catalog/history"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/plan"
	"github.com/penstock/penstock/loader/policy"
	"github.com/penstock/penstock/loader/resolve"
)

// Tables has the tables to describe. A catalog.Catalog implements it.
type Tables interface {
	Table(ctx context.Context, name string, ref dataset.Ref) (*catalog.Table, error)
	Files(ctx context.Context, t *catalog.Table, columns []int, bounds []int) ([]catalog.File, error)
}

// Options configure a Describer. All fields but Cores and Kept are required.
type Options struct {
	Tables Tables
	// Read reads columns of files, without deleted rows.
	Read   func(ctx context.Context, source plan.Source, columns []catalog.Field) (array.RecordReader, error)
	Budget *budget.Budget
	Cores  *cores.Cores // reads several files at a time; nil reads one
	Kept   Disk         // keeps the parts of files; nil: none is kept
	// RequireChecksums is the option of the scanner. Parts of files that were read without it are not used with it.
	RequireChecksums bool
}

// Describer describes tables. It is safe for concurrent use.
type Describer struct {
	options    Options
	sampleRows int64 // SampleRows
	maxKept    int64 // MaxKept
}

// New returns a Describer.
func New(o Options) *Describer {
	return &Describer{options: o, sampleRows: SampleRows, maxKept: MaxKept}
}

// SampleRows is the maximum number of rows in the sample of a table, in expectation.
const SampleRows = 1 << 16

// Request says what to describe.
type Request struct {
	// History has the snapshots of the table. Its Name is the name of the table.
	History *history.Table
	// At is the id of a snapshot, the name of a branch or tag, or a time (history.Table.RefAt); "" is main.
	At      string
	Columns []string // nil: all top-level columns
	// MaxColumns is the maximum number of columns to describe; 0: any number.
	MaxColumns int
	// Rights are those of the client. Columns that it may not read are neither read nor in the result, and sizes of files are not in the
	// result. A client that may not read all rows gets no result.
	Rights policy.Rights
	// Label is a column of numbers or booleans with which the other columns are compared; "": none.
	Label string
	// Exact takes quantiles and frequent values from all rows, whose values then have to fit in memory.
	Exact bool
	// NoValues leaves out values of columns: minimum, maximum, quantiles and frequent values of texts and binary values, and all
	// frequent values.
	NoValues bool
	// Progress is called from time to time with the number of rows read so far and the number of all rows to read; it may be nil.
	Progress func(read, all int64)
	// Keep keeps the result with the table, and returns the location of the file that has it; nil: the result is not kept.
	// The sketches must not be used after it returns.
	Keep func(ctx context.Context, of ToKeep) (location string, err error)
}

// Result describes a table at a snapshot, as JSON.
type Result struct {
	Version  int       `json:"version"` // of this form: 1
	Table    string    `json:"table"`
	Snapshot int64     `json:"snapshot,omitempty,string"` // 0: no snapshot
	Time     time.Time `json:"time,omitzero"`
	Rows     int64     `json:"rows"` // without deleted rows
	// Files and Bytes are those of data files. They are absent for a client that may not read all columns.
	Files  *int   `json:"files,omitempty"`
	Bytes  *int64 `json:"bytes,omitempty"`
	Sample Sample `json:"sample"`
	// QuantileNames are the quantiles of each column, as shares of its values.
	QuantileNames []float64       `json:"quantiles"`
	Columns       []stats.Summary `json:"columns"`
	// NotDescribed are columns of types that are not supported, and elements of lists, such as items.elements, of such types.
	NotDescribed []string `json:"not_described,omitempty"`
	// Kept is the location of the table's statistics file with the result; "" if the result was not kept.
	Kept string `json:"kept,omitempty"`
	// Label says how well columns predict a label; nil without one.
	Label *stats.Label `json:"label,omitempty"`
	// Against is the comparison with a base; nil without one.
	Against *Comparison `json:"against,omitempty"`
}

// Sample says how exact the result is.
type Sample struct {
	Rows int64   `json:"rows"`
	Rate float64 `json:"rate"` // the probability of each row to be in the sample
	// QuantileError is the error of quantiles of columns without nulls, as a share of the values, with a probability of 99 %. 0 is
	// exact.
	QuantileError float64 `json:"quantile_error"`
	// DistinctError is the relative standard error of the numbers of distinct values that are estimates.
	DistinctError float64 `json:"distinct_error"`
}

// Describe describes a table. Errors: NotFound for a table, branch, snapshot or column that does not exist, Exhausted without
// memory, and the errors of the catalog and of reading files.
func (d *Describer) Describe(ctx context.Context, request Request) (*Result, error) {
	r := d.describing(request)
	defer r.release()
	if err := r.describe(ctx); err != nil {
		return nil, err
	}
	if err := r.keepResult(ctx); err != nil {
		return nil, err
	}
	return &r.result, nil
}

// describing returns the description for a request, which the caller releases.
func (d *Describer) describing(request Request) *describing {
	return &describing{Options: d.options, sampleRows: d.sampleRows, maxKept: d.maxKept, request: request}
}

// describing is one call of Describe.
type describing struct {
	Options
	sampleRows int64
	maxKept    int64
	request    Request
	table      *catalog.Table
	hidden     map[int]bool // the ids of columns that the client may not read
	columns    []catalog.Field
	files      []catalog.File
	level      int
	held       *budget.Reservation
	result     Result
	read       progress
	whole      *stats.Part
	// divided has the rows of partitions; nil: they are not collected.
	divided *partitions
	// like has summaries whose bins the histograms take; it may be nil.
	like []stats.Summary
	// onTable is called when the table is known, before its columns are chosen; it may be nil.
	onTable func()
	// onFiles is called when the files are known, before they are read; it may be nil.
	onFiles func()
	// mayLack reports whether the table may lack columns of the request and the label.
	mayLack bool
}

// release releases the rows that describe has read, and their memory.
func (d *describing) release() {
	d.whole.Release()
	d.divided.release()
	if d.held != nil {
		d.held.Release()
	}
}

// describe sets the result.
func (d *describing) describe(ctx context.Context) error {
	return fault.Op(d.readTable(ctx), "describe table %s", d.request.History.Name)
}

func (d *describing) readTable(ctx context.Context) (err error) {
	ref, err := d.request.History.RefAt(d.request.At)
	if err != nil {
		return err
	}
	if d.table, err = d.Tables.Table(ctx, d.request.History.Name, ref); err != nil {
		return err
	}
	if d.table, d.hidden, err = resolve.VisibleTable(d.request.History.Name, d.table, d.request.Rights); err != nil {
		return err
	}
	if d.onTable != nil {
		d.onTable()
	}
	if err := d.choose(); err != nil {
		return err
	}
	if d.table.HasSnapshot() {
		if d.files, err = d.Tables.Files(ctx, d.table, catalog.FieldIDs(d.columns), nil); err != nil {
			return err
		}
	}
	d.order()
	if d.held, err = d.Budget.ReserveFor(ctx, "the statistics of table "+d.request.History.Name, 0); err != nil {
		return err
	}
	if d.onFiles != nil {
		d.onFiles()
	}
	if d.whole, err = d.readAll(ctx); err != nil {
		return err
	}
	if err := d.report(ctx, d.whole); err != nil {
		return err
	}
	return d.label(ctx)
}

// choose sets the columns to describe.
func (d *describing) choose() error {
	visible := slices.DeleteFunc(slices.Clone(d.table.Fields), func(f catalog.Field) bool { return d.hidden[f.ID] })
	for _, f := range visible {
		if len(d.request.Columns) > 0 && !slices.Contains(d.request.Columns, f.Name) && f.Name != d.request.Label {
			continue
		}
		if part := stats.NotDescribed(f.Name, f.Type); part != "" {
			d.result.NotDescribed = append(d.result.NotDescribed, part)
		}
		if !stats.Describes(f.Type) {
			continue
		}
		d.columns = append(d.columns, f)
	}
	if d.request.Label != "" {
		switch _, err := stats.FindLabel(d.request.Label, arrowFields(d.columns)); {
		case err != nil && !d.mayLack:
			return policy.AsSeen(err)
		case err != nil:
			d.request.Label = ""
		}
	}
	names := make([]string, len(visible))
	for i, f := range visible {
		names[i] = f.Name
	}
	for _, name := range d.request.Columns {
		if !slices.Contains(names, name) && !d.mayLack {
			failure := fault.New(fault.NotFound, "the table has no column %q", name).In(d.request.History.Name, "")
			failure.Faults = []fault.Field{{Field: "columns", Message: failure.Message, Nearest: fault.Nearest(name, names)}}
			return policy.AsSeen(failure)
		}
	}
	return policy.AsSeen(CheckColumns(len(d.columns), d.request.MaxColumns))
}

// CheckColumns returns Invalid if more columns would be described than may be. The maximum 0 is none.
func CheckColumns(columns, maximum int) error {
	if maximum > 0 && columns > maximum {
		return fault.New(fault.Invalid, "%d columns are more than the %d that one call describes", columns, maximum).WithRemedy("name columns, and call several times")
	}
	return nil
}

// order sorts the files, and counts rows and bytes.
func (d *describing) order() {
	bytes := int64(0)
	slices.SortStableFunc(d.files, func(a, b catalog.File) int {
		return cmp.Or(cmp.Compare(a.Sequence, b.Sequence), cmp.Compare(a.Rank, b.Rank), strings.Compare(a.Location, b.Location))
	})
	for _, f := range d.files {
		d.read.all += f.Rows
		bytes += f.Bytes
	}
	if len(d.hidden) == 0 {
		d.result.Files, d.result.Bytes = new(len(d.files)), new(bytes)
	}
	if !d.request.Exact {
		d.level = stats.LevelFor(d.read.all, d.sampleRows)
	}
}

// report sets the result.
func (d *describing) report(ctx context.Context, whole *stats.Part) error {
	out := &d.result
	out.Version, out.Table, out.Snapshot, out.Rows = 1, d.request.History.Name, d.table.Pin.Snapshot, whole.Rows()
	if out.Snapshot == dataset.NoSnapshot {
		out.Snapshot = 0
	}
	out.Time = d.request.History.Time(out.Snapshot)
	out.QuantileNames = stats.Quantiles
	out.Sample = Sample{
		Rows: whole.Sampled, Rate: stats.Sampling{Level: d.level}.Rate(), QuantileError: stats.QuantileError(whole.Sampled, whole.Rows()),
		DistinctError: stats.DistinctError,
	}
	columns := make([][]stats.Summary, len(d.columns))
	err := d.Cores.Each(len(columns), func(i int) error {
		bytes := whole.SummaryMemory(i)
		if err := d.held.GrowWait(ctx, bytes); err != nil {
			return err
		}
		defer d.held.Shrink(bytes)
		columns[i] = whole.Summarize(i, d.columns[i].Name, !d.request.NoValues, d.like)
		return nil
	})
	out.Columns = append([]stats.Summary{}, slices.Concat(columns...)...) // not nil
	return err
}

// label compares the columns with the label.
func (d *describing) label(ctx context.Context) error {
	if d.request.Label == "" {
		return nil
	}
	fields := arrowFields(d.columns)
	at, err := stats.FindLabel(d.request.Label, fields)
	if err != nil {
		return err
	}
	if err := d.held.GrowWait(ctx, d.whole.LabelMemory()); err != nil {
		return err
	}
	d.result.Label = d.whole.Label(at, fields)
	return nil
}

// arrowFields returns the columns as Arrow's fields.
func arrowFields(columns []catalog.Field) []arrow.Field {
	out := make([]arrow.Field, len(columns))
	for i, f := range columns {
		out[i] = f.Arrow()
	}
	return out
}
