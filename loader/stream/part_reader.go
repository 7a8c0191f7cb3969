package stream

import (
	"context"
	"slices"
	"strconv"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/joiner"
	"github.com/penstock/penstock/loader/joined"
	"github.com/penstock/penstock/loader/plan"
	"github.com/penstock/penstock/loader/shuffle"
)

// partReader reads the joined rows of one part of a run, section after section. It implements
// shuffle.PartRows.
type partReader struct {
	array.RecordReader // nil until a section is opened

	run      *permutedRun
	number   int
	sections []plan.Section // the sections that were not opened yet
	current  *openSection   // nil before the first section
	finished []*openSection // sections that ended, but whose dictionaries batches may still use
	starts   []windowStart  // the starts of the current window and of later windows whose rows have reached the join
	closed   windowStart    // the counts of the sections before the current section
	ended    bool           // the current section has no more rows
}

// openSection is a section that was opened and not yet released.
type openSection struct {
	sectionWindows
	joined *joined.OpenRange
	rows   *shuffle.PriorityReader
	begun  int // permutedRun.begun when the section ended
}

// sectionWindows implements shuffle.SectionWindows.
type sectionWindows struct {
	run     *plan.Run
	part    int
	section plan.Section
}

// Window implements shuffle.SectionWindows.
func (w sectionWindows) Window(row int64) int64 { return w.run.WindowOf(w.part, w.section, row) }

// Last implements shuffle.SectionWindows.
func (w sectionWindows) Last(window int64) int64 { return w.run.LastOf(w.part, w.section, window) }

// Other implements shuffle.SectionWindows.
func (w sectionWindows) Other(row int64) int64 { return w.run.Window(w.section.Rows.Split, row) }

// open opens the next section that has rows, if there is one. It is called when the current section
// has no more rows.
func (p *partReader) open(ctx context.Context) error {
	for len(p.sections) > 0 {
		next := p.sections[0]
		p.sections = p.sections[1:]
		r := p.run
		r.left[next.Range]--
		of := r.section(next)
		of.Last = r.left[next.Range] == 0
		if err := r.toRequests(ctx, &of); err != nil {
			return err
		}
		if of.Rows.From < of.Rows.To {
			return p.openSection(ctx, next, of)
		}
		r.joined.Drop(of)
	}
	p.ended = true
	return nil
}

// openSection opens a section.
func (p *partReader) openSection(ctx context.Context, next plan.Section, of joined.SectionSpec) error {
	one := &openSection{sectionWindows: sectionWindows{run: &p.run.run, part: p.number, section: next}}
	of.Transform = func(ctx context.Context, scanned joined.SourceRows) (joined.SourceRows, error) {
		made, err := shuffle.New(ctx, scanned, shuffle.PrioritySpec{
			From: of.Rows.From, To: of.Rows.To, Seed: p.run.spec.Plan.ShuffleSeed(of.Rows.Split), Windows: one,
			EnterWindow: func(window int64) { p.enter(one, window) },
			Before: func(ctx context.Context) (shuffle.StoredRow, error) {
				return p.run.lastBefore(ctx, of.Rows.Split, of.Scanned.From)
			},
		}, p.run.options())
		if err != nil {
			return nil, err
		}
		one.rows = made
		return &offsetRows{RecordReader: made, scanned: scanned, rows: made}, nil
	}
	var err error
	if one.joined, err = p.run.joined.Open(ctx, of); err != nil {
		return err
	}
	if p.current != nil {
		p.finish()
	}
	p.current, p.ended = one, false
	if p.RecordReader == nil {
		p.closed.counts = make([]joiner.Counts, len(one.joined.Counts()))
		p.RecordReader = batch.FromFuncContext(ctx, one.joined.Schema(), p.next, nil)
	}
	return nil
}

// finish ends the join of the current section, and moves the section to finished, where it stays
// until the rows of its last window are no longer used.
func (p *partReader) finish() {
	p.current.begun = p.run.begun
	p.finished = append(p.finished, p.current)
	joiner.AddCounts(p.closed.counts, p.current.joined.Counts())
	p.closed.divided += p.current.rows.Divided()
	p.current.joined.Finish()
	p.current = nil
}

// next returns the next joined rows.
func (p *partReader) next(ctx context.Context) (arrow.RecordBatch, error) {
	for !p.ended {
		if p.current.joined.Next() {
			b := p.current.joined.RecordBatch()
			b.Retain()
			return b, nil
		}
		if err := p.current.joined.Err(); err != nil {
			return nil, err
		}
		p.ended = true
		if err := p.open(ctx); err != nil {
			return nil, err
		}
	}
	return nil, nil //nolint:nilnil // the end of a stream, see batch.FromFunc
}

// Window implements shuffle.PartRows.
func (p *partReader) Window() int64 { return p.current.Window(p.row()) }

// Place implements shuffle.PartRows.
func (p *partReader) Place() shuffle.StoredPlace {
	return shuffle.StoredPlace{Range: p.current.section.Order, Row: p.row()}
}

// row returns the number, in its split, of the first row of the current batch.
func (p *partReader) row() int64 {
	return p.RecordBatch().Column(p.run.sequences.joined.Layout.Appended).(*array.Int64).Value(0)
}

// enter is called before the join gets the first row of a window. It records the counts of the rows
// before the window. If the current section ends in the window after this one, enter starts to read
// the next section.
func (p *partReader) enter(one *openSection, window int64) {
	at := p.soFar()
	at.window = window
	p.starts = append(p.starts, at)
	if len(p.sections) > 0 && !p.run.whole() && one.Last(window+1) == one.section.Rows.To-1 {
		p.run.lane.Prefetch([]joined.SectionSpec{p.run.section(p.sections[0])})
	}
}

// begins drops the recorded counts of windows that were already returned. It also releases finished
// sections that ended before the previous window. Sections of the previous window are kept, since
// the consumer may still use its batches.
func (p *partReader) begins(window int64) {
	p.starts = slices.DeleteFunc(p.starts, func(s windowStart) bool { return s.window < window })
	p.finished = slices.DeleteFunc(p.finished, func(one *openSection) bool {
		over := one.begun+1 < p.run.begun
		if over {
			one.joined.Release()
		}
		return over
	})
}

// before returns the counts of those rows of the part that precede a window.
func (p *partReader) before(window int64) windowStart {
	for _, s := range p.starts {
		if s.window >= window {
			return s
		}
	}
	return p.soFar()
}

// soFar returns the counts of all rows of the part that were joined so far.
func (p *partReader) soFar() windowStart {
	all := windowStart{counts: slices.Clone(p.closed.counts), divided: p.closed.divided}
	if p.current != nil {
		all.divided += p.current.rows.Divided()
		joiner.AddCounts(all.counts, p.current.joined.Counts())
	}
	return all
}

// release releases all sections.
func (p *partReader) release() {
	if p.current != nil {
		p.finish()
	}
	for _, one := range p.finished {
		one.joined.Release()
	}
	p.finished, p.ended = nil, true
}

// offsetRows returns the rows of a scan without the rows that PriorityReader skips at the start.
type offsetRows struct {
	array.RecordReader
	scanned joined.SourceRows
	rows    *shuffle.PriorityReader
}

// Begin implements joined.SourceRows.
func (r *offsetRows) Begin() { r.scanned.Begin() }

// Files implements joined.SourceRows.
func (r *offsetRows) Files() func(row int64) string {
	files := r.scanned.Files()
	return func(row int64) string { return files(row + r.rows.Skipped()) }
}

// emptyPart is a part without rows.
type emptyPart struct{ array.RecordReader }

// newEmptyPart returns a part with the given number of columns.
func newEmptyPart(columns int) emptyPart {
	fields := make([]arrow.Field, columns)
	for i := range fields {
		fields[i] = arrow.Field{Name: strconv.Itoa(i), Type: arrow.Null, Nullable: true}
	}
	schema := arrow.NewSchema(fields, nil)
	return emptyPart{batch.FromFunc(schema, func() (arrow.RecordBatch, error) { return nil, nil }, nil)}
}

// Window implements shuffle.PartRows.
func (emptyPart) Window() int64 { return 0 }

// Place implements shuffle.PartRows.
func (emptyPart) Place() shuffle.StoredPlace { return shuffle.StoredPlace{} }
