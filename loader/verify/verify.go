// Package verify checks that the tables of a dataset are laid out as their manifests say and that
// the dataset's rules hold. It reads the keys of every table. It checks the bucket of every row,
// finds duplicate keys, null keys and staging keys that no training row has, and counts the
// training rows that have a match.
//
// It continues after every finding, even a damaged file, so that one run finds everything. It holds
// the keys of one cluster of files at a time, in memory that is reserved from the budget. If the
// keys of a cluster do not fit, it reads the cluster in several passes. The package depends on
// plans and batches of rows, and opens files through a function.
//
// It does not use the join of streams, because a stream ends at the first error and reads only keys
// that training rows have. A test with random tables checks that a verification and a stream count
// the same matches (see docs/adr/0015).
package verify

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/plan"
	"github.com/penstock/penstock/loader/plan/coverage"
	"github.com/penstock/penstock/loader/resolve"
)

// ChecksummedRows are the rows of one source. They tell whether checksums are missing.
type ChecksummedRows interface {
	array.RecordReader
	// WithoutChecksum reports whether any page read so far lacks a checksum. It is false for tables
	// without pages, such as tables in memory.
	WithoutChecksum() bool
}

// Options are the options of a verification.
type Options struct {
	Catalog catalog.Catalog
	// Scan opens a source: see loader.Options.Scan. It must check the buckets of keys only if the
	// source asks for this check.
	Scan   func(ctx context.Context, source plan.Source, columns []catalog.Field) (ChecksummedRows, error)
	Budget *budget.Budget // reserves the held keys; nil: unlimited
	// CheckLimits checks limits of values; nil: limits are not supported.
	CheckLimits CheckLimits
	// Progress is called after each batch that was read; nil: it is not called.
	Progress func(Progress)
}

// Progress is how far the check of one table has come.
type Progress struct {
	Table string // the training table, or the staging entry
	// Rows is the number of rows read so far, and OfRows is the number of rows to read. Both count
	// rows of the table and, for a staging table, the training rows that are looked up. If the keys
	// do not fit in memory, OfRows grows at the start of each further pass.
	Rows, OfRows int64
}

// Run verifies the tables of a plan. It continues after a finding. It returns an error only if it
// cannot check the tables, for example because storage does not respond.
//
// Training rows count if they pass the filters of the query and the dataset, and the sample. Rows
// that `distinct` or the joins with other staging tables would drop count, too.
func Run(ctx context.Context, p *plan.Plan, options Options) (*Report, error) {
	v := &verifier{
		options: options, plan: p, unread: map[string]bool{}, without: map[string]bool{},
		out: &Report{Dataset: p.Relation.Dataset.Name, Plan: p.ID, Pin: p.Rows.Pin, Findings: []Finding{}},
	}
	if err := v.training(ctx); err != nil {
		return nil, fault.Op(err, "verify the training table")
	}
	for i, s := range p.Relation.Staging {
		if s.Promoted != nil {
			v.find(promotedEntry, worthKnowing, Finding{Table: s.Name, Message: fmt.Sprintf(
				"its values are columns of the training table, promoted at snapshot %d of table %s; the staging table is not read", s.Pinned.Pin.Snapshot, s.Table)})
			continue
		}
		if err := v.staging(ctx, i); err != nil {
			return nil, fault.Op(err, "verify staging[%d] %s", i, s.Name)
		}
	}
	for _, t := range v.out.Tables {
		for i := range t.Files {
			t.Files[i].NoChecksum = v.without[t.Files[i].File]
		}
	}
	if text := checksumText(v.out.Tables); text != "" {
		v.find(noChecksums, worthKnowing, Finding{Message: text})
	}
	slices.SortStableFunc(v.out.Findings, func(a, b Finding) int {
		return cmp.Compare(slices.Index(grades(), a.Grade), slices.Index(grades(), b.Grade))
	})
	return v.out, nil
}

// trainingName is the name of the training table in reports.
const trainingName = "training"

// verifier is the state of one Run.
type verifier struct {
	options Options
	plan    *plan.Plan
	out     *Report
	unread  map[string]bool // files that have a finding of kind unreadable
	without map[string]bool // files with pages that have no checksum
	at      Progress
}

// begin begins the check of a table.
func (v *verifier) begin(table string) { v.at = Progress{Table: table} }

// expect adds to the number of rows that will be read.
func (v *verifier) expect(rows int64) { v.at.OfRows += rows }

// count adds to the number of rows that were read, and reports the progress.
func (v *verifier) count(rows int64) {
	v.at.Rows += rows
	if v.options.Progress != nil {
		v.options.Progress(v.at)
	}
}

func (v *verifier) find(kind Kind, grade Grade, f Finding) {
	f.Kind, f.Grade = kind, grade
	v.out.Findings = append(v.out.Findings, f)
}

// hasUnreadable reports whether a file of a table could not be read.
func (v *verifier) hasUnreadable(table string) bool {
	return slices.ContainsFunc(v.out.Findings, func(f Finding) bool { return f.Table == table && f.Kind == unreadable })
}

// training checks the layout of the training files that the plan reads.
func (v *verifier) training(ctx context.Context) error {
	t := v.plan.Relation.Training
	report := newTable(trainingName, t)
	report.LeftOut = v.plan.Pruned.Files
	keys := map[int]bool{}
	for _, s := range v.plan.Relation.Staging {
		for _, k := range s.Keys {
			keys[k.Training.ID] = true
		}
	}
	var files []catalog.File
	var layouts []*layout
	var columns []catalog.Field
	seen := map[string]bool{}
	for _, s := range v.plan.Splits {
		for _, f := range s.Files {
			if f.Pruned || seen[f.File.Location] {
				continue
			}
			seen[f.File.Location] = true
			l := newLayout(t, f.File, keys)
			files, layouts = append(files, f.File), append(layouts, l)
			for _, c := range l.columns() {
				columns = withField(columns, c)
			}
		}
	}
	listing, err := v.trainingListing(ctx, t, columns)
	refused := v.refused(report.Name, err)
	if err != nil && !refused {
		return err
	}
	v.begin(t.Name)
	for i, l := range layouts {
		v.expectLayout(files[i], l, refused)
	}
	for i, l := range layouts {
		source := plan.Source{Table: t, Planned: listing.Columns, Files: []plan.FileRange{{File: files[i], To: files[i].Rows}}}
		if err := v.readLayout(ctx, report.Name, source, l); err != nil {
			return err
		}
		report.add(t, l.file)
	}
	slices.SortFunc(report.Files, byFile)
	of := v.plan.Relation.Dataset.Training
	err = v.checkLimits(ctx, &report, of.Table, t, of.Limits)
	v.out.Tables = append(v.out.Tables, report)
	return err
}

// expectLayout adds the rows of a file to the rows that will be read, if the file's layout will be
// checked. If the listing was refused, no layout is checked.
func (v *verifier) expectLayout(f catalog.File, l *layout, refused bool) {
	if refused {
		l.checkOnly(nil)
	}
	if len(l.columns()) > 0 {
		v.expect(f.Rows)
	}
}

// listing lists the files of a table, for all columns that will be read from them.
func (v *verifier) listing(ctx context.Context, t *catalog.Table, columns []catalog.Field) (listing plan.Listing, err error) {
	listing.Columns = catalog.FieldIDs(columns)
	listing.Files, err = v.options.Catalog.Files(ctx, t, listing.Columns, nil)
	return listing, err
}

// trainingListing is like listing, for the training files that the plan reads: with `since`, only
// appended files.
func (v *verifier) trainingListing(ctx context.Context, t *catalog.Table, columns []catalog.Field) (listing plan.Listing, err error) {
	if v.plan.Rows.Since == 0 {
		return v.listing(ctx, t, columns)
	}
	listing.Columns = catalog.FieldIDs(columns)
	listing.Files, err = v.options.Catalog.Appended(ctx, t, v.plan.Rows.Since, listing.Columns, nil)
	return listing, err
}

// refused reports whether listing failed because a column of a file does not fit the table. If so,
// it adds a finding.
func (v *verifier) refused(name string, err error) bool {
	if fault.KindOf(err) != fault.Invalid {
		return false
	}
	v.find(unreadable, breaksStream, Finding{Table: name, File: fault.As(err).File, Message: err.Error()})
	return true
}

// readLayout reads the bucketed columns of a source of one file.
func (v *verifier) readLayout(ctx context.Context, name string, source plan.Source, l *layout) error {
	if columns := l.columns(); len(columns) > 0 {
		whole, err := v.read(ctx, name, source, columns, l.check)
		if err != nil {
			return err
		}
		l.file.Unread = !whole
	}
	v.findLayout(name, l)
	return nil
}

// findLayout adds a finding if a file has rows of other buckets.
func (v *verifier) findLayout(name string, l *layout) {
	if l.file.Wrong > 0 {
		v.find(badLayout, breaksStream, Finding{Table: name, File: l.file.File, Message: l.message()})
	}
}

func newTable(name string, t *catalog.Table) Table {
	return Table{Name: name, Table: t.Name, Files: []File{}, Specs: map[int]string{}}
}

func (t *Table) add(of *catalog.Table, f File) {
	t.Files = append(t.Files, f)
	t.Rows += f.Rows
	if _, known := t.Specs[f.Spec]; !known {
		t.Specs[f.Spec] = specText(of, f.Spec)
	}
}

// read calls a function with each batch of one file. first is the number of the batch's first row,
// counting only rows that pass the source's filter. read reports whether the file was read to its
// end. A file that cannot be read is a finding. A missing snapshot or table is an error, since
// nothing more can be read from it.
func (v *verifier) read(
	ctx context.Context, name string, source plan.Source, columns []catalog.Field,
	do func(rows arrow.RecordBatch, first int64) error,
) (whole bool, err error) {
	file := source.Files[0].File.Location
	source.Cache = dataset.CacheOff // cached data could hide damage to the file
	rows, err := v.options.Scan(ctx, source, columns)
	if err == nil {
		defer rows.Release()
		for first := int64(0); rows.Next(); {
			if err := do(rows.RecordBatch(), first); err != nil {
				return false, err
			}
			first += rows.RecordBatch().NumRows()
			v.count(rows.RecordBatch().NumRows())
		}
		err = rows.Err()
		if rows.WithoutChecksum() {
			v.without[file] = true
		}
	}
	switch kind := fault.KindOf(err); {
	case err == nil:
		return true, nil
	case ctx.Err() != nil:
		return false, ctx.Err()
	case kind != fault.Corrupt && kind != fault.Invalid: // such as an expired pin
		return false, err
	case !v.unread[file]:
		v.unread[file] = true
		v.find(unreadable, breaksStream, Finding{Table: name, File: file, Message: err.Error()})
	}
	return false, nil
}

// staging checks the layout of a staging table's files, and compares their keys with those
// of the training rows.
func (v *verifier) staging(ctx context.Context, i int) error {
	s := v.plan.Relation.Staging[i]
	c, err := v.newKeyCheck(ctx, i)
	if err != nil {
		return err
	}
	const grids = 4 // the counts of rows and matches, and a copy
	held, err := v.options.Budget.Reserve("the keys of staging table "+s.Name, sampleBytes(len(s.Keys))+coverage.Size(v.plan, grids))
	if err != nil {
		return err
	}
	defer held.Release()
	c.tally = coverage.NewTally(v.plan)
	if err := c.run(ctx, i); err != nil {
		return err
	}
	if err := c.rate(ctx); err != nil {
		return err
	}
	report := newTable(s.Name, s.Pinned)
	report.Join = &c.join
	for _, l := range c.layouts {
		v.findLayout(s.Name, l)
		report.add(s.Pinned, l.file)
	}
	slices.SortFunc(report.Files, byFile)
	v.checkRules(s, &c.join, c.few)
	err = v.checkLimits(ctx, &report, s.Table, s.Pinned, s.Limits)
	v.out.Tables = append(v.out.Tables, report)
	return err
}

// checkRules adds findings for the rules of a staging table that do not hold. few is whether few
// rows match in a way that min_match does not allow. Duplicate keys that
// no training row has do not end a stream with an error.
func (v *verifier) checkRules(s resolve.Staging, j *Join, few bool) {
	adds := s.Join.Adds()
	if adds && s.Duplicates.Fail() && j.DuplicateKeys > 0 {
		grade := worthKnowing
		if j.DuplicatesAsked > 0 {
			grade = breaksStream
		}
		v.find(duplicateKeys, grade, Finding{Table: s.Name, Message: duplicatesText(j)})
	}
	if adds && s.Missing.Fail() && j.Missing > 0 {
		v.find(missingMatches, breaksStream, Finding{Table: s.Name, Message: missingText(j)})
	}
	if j.MatchRate < s.MinMatch {
		v.find(lowMatchRate, breaksRule, Finding{Table: s.Name, Message: matchRateText(j)})
	}
	switch {
	case few && s.MinMatch == 0:
		grade := breaksRule
		if s.AnyMatch {
			grade = worthKnowing
		}
		v.find(fewMatches, grade, Finding{Table: s.Name, Message: fewMatchesText(j, !v.hasUnreadable(s.Name))})
	case j.Forms != nil && j.Forms.Respelled > 0:
		v.find(otherSpelling, worthKnowing, Finding{Table: s.Name, Message: spellingText(j.Forms)})
	}
}
