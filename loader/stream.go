package loader

import (
	"context"
	"slices"
	"sync/atomic"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/penstock/penstock/internal/release"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/lane"
	"github.com/penstock/penstock/loader/plan"
	"github.com/penstock/penstock/loader/resolve"
)

// Stream is what a trainer reads: batches, each with a cursor, and a report.
type Stream interface {
	array.RecordReader
	// Begin determines what the stream's schema depends on. With wire: auto it reads
	// the rows of the first batch, which the first Next then returns; with other forms
	// it does nothing. Schema is final only after Begin or the first Next, which calls
	// Begin.
	Begin() error
	Progress
	// Report returns a report of the stream so far, which is complete at its end.
	Report() Report
	// Park releases everything that the stream holds except its position, including the
	// last batch returned unless the caller has retained it. The following Next resumes
	// with the next row. Park reports whether the stream was parked: a stream that
	// holds nothing or has failed is not, and after resuming, a stream cannot be parked
	// under pressure (pressed) until it has returned as many rows as it had to read
	// again.
	Park(pressed bool) bool
}

// Progress describes the last batch returned.
type Progress interface {
	// BatchRows returns its number of rows; with wire: grouped, the rows of its
	// requests.
	BatchRows() int64
	// Cursor returns the stream's position after it.
	Cursor() dataset.Cursor
}

// stream reads one shard of a plan. It holds nothing before the first Next and while it
// is parked; otherwise it has a reader and what the reader opened. When a stream is
// parked, the counts of rows that its reader read but did not return are taken back;
// the next reader counts those rows again.
type stream struct {
	ctx     context.Context //nolint:containedctx // a reader's pulls carry no context of their own
	loader  *Loader
	plan    *plan.Plan
	reading StreamOptions
	outputs []resolve.Output
	form    form
	start   start
	// counting means that no row is returned: the stream is only counted.
	counting bool

	refs   atomic.Int64
	held   *release.Handle // the plan's memory, its snapshots, and the deletes that the stream reads
	reader *lane.Reader    // nil before the first Next and while the stream is parked
	ranges *ranges         // of reader, or of the last one
	err    error
	rows   int64
	amount int64 // the same, or requests if batches consist of requests

	// Totals of the earlier readers.
	steps, batches, skipped int64
	given                   int64 // rows per lane, see lane.Reader.Given
	uneven                  bool
	at                      []lane.Position
	passed                  []int64 // rows of each lane, see lane.Reader.Passed

	again int64 // training rows that were read again and not yet returned since
}

// Schema implements array.RecordReader.
func (s *stream) Schema() *arrow.Schema { return s.form.schema }

// RecordBatch implements array.RecordReader.
func (s *stream) RecordBatch() arrow.RecordBatch {
	if s.reader == nil {
		return nil
	}
	return s.reader.RecordBatch()
}

// Record is the old name of RecordBatch in the Arrow library.
func (s *stream) Record() arrow.RecordBatch { return s.RecordBatch() }

// Err implements array.RecordReader.
func (s *stream) Err() error {
	if s.err != nil || s.reader == nil {
		return s.err
	}
	return s.reader.Err()
}

// Retain implements array.RecordReader.
func (s *stream) Retain() { s.refs.Add(1) }

// Release implements array.RecordReader.
func (s *stream) Release() {
	if s.refs.Add(-1) != 0 {
		return
	}
	if s.reader != nil {
		s.reader.Release()
	}
	s.held.Release()
}

// BatchRows implements Progress.
func (s *stream) BatchRows() int64 {
	rows, _ := s.reader.Gave()
	return rows
}

// Next implements array.RecordReader.
func (s *stream) Next() bool {
	if s.Begin() != nil {
		return false
	}
	if s.reader == nil {
		if s.err = s.open(s.ctx); s.err != nil {
			return false
		}
	}
	if !s.reader.Next() {
		return false
	}
	rows, counted := s.reader.Gave()
	s.rows, s.amount = s.rows+rows, s.amount+counted
	s.again -= min(rows, s.again)
	return true
}

// open makes a reader that resumes at the stream's position.
func (s *stream) open(ctx context.Context) error {
	lanes := slices.Clone(s.start.lanes)
	for i := range lanes {
		lanes[i].Start = s.at[i]
	}
	ctx, entered := s.loader.options.Budget.Enter(ctx, s.reading.Peer) // the stream may wait for memory
	opened, err := newRanges(ctx, s, lanes)
	if err != nil {
		entered.Release()
		return err
	}
	s.ranges = opened
	columns, tables := s.lanes()
	left := s.start.stepsLeft(s.reading.Tail)
	if left != lane.Unknown {
		left -= s.steps
	}
	limit := max(0, s.reading.Limit-s.rows)
	if s.limited() {
		left = 0 // the limit was reached before the stream was parked
	}
	s.reader = lane.New(ctx, lane.Options{
		Lanes: lanes, Rows: s.start.q, Request: opened.givenKey, Grouped: s.grouped(), Steps: left, Limit: limit, Every: s.every(), Counted: s.counted(),
		Schema: s.form.schema, Columns: columns, Indexed: tables, Open: opened.openRange,
		Requests: opened.requests.requests(opened.requestColumn()),
		Closed: func() {
			opened.close()
			entered.Release()
		},
		Memory: s.loader.options.Memory, Budget: s.loader.options.Budget, MaxBytes: s.loader.options.MaxBatchBytes,
		GlobalOf: s.reading.globalOf(),
	})
	return nil
}

// Park implements Stream.
func (s *stream) Park(pressed bool) bool {
	if s.reader == nil || s.Err() != nil || pressed && s.again > 0 {
		return false
	}
	s.at = s.reader.Positions()
	s.steps, s.batches, s.skipped = s.stepsDone(), s.batchesDone(), s.skippedSoFar()
	s.given, s.uneven = s.givenSoFar()
	s.form.sent = s.sentSoFar()
	s.passed = s.passedSoFar()
	if s.again = s.reader.Weighed(); s.again > 0 {
		s.ranges.takeAllBack()
	} else if !s.limited() { // otherwise nothing counts them again
		s.again = s.ranges.takeBack(s.start.lanes, s.at)
	}
	s.reader.Release()
	s.reader = nil
	return true
}

// limited reports whether the stream has returned all rows that its limit allows.
func (s *stream) limited() bool { return s.reading.Limit > 0 && s.rows == s.reading.Limit }

// positions returns the positions of the lanes after the last batch returned.
func (s *stream) positions() []lane.Position {
	if s.reader == nil {
		return s.at
	}
	return s.reader.Positions()
}

// every returns the steps that the next reader returns. They are counted from the
// query's cursor, while the reader may begin later.
func (s *stream) every() lane.Every {
	of := int64(max(1, s.reading.Every.Of))
	return lane.Every{Step: ((int64(s.reading.Every.Step)-s.steps)%of + of) % of, Of: of}
}

// counted returns the counted number of rows of the next reader's lanes, if known.
func (s *stream) counted() lane.Counted {
	if s.reading.Limit > 0 || !s.reading.Part.IsZero() {
		return lane.Counted{} // lanes end before their last row
	}
	left := s.start.left(s.plan)
	for i := range left {
		left[i] -= s.passed[i]
	}
	return lane.Counted{Left: left, Differs: func(number int) error { return differs(number, s.start.counts.Lanes[number]) }}
}

// stepsDone returns the number of steps of the shard after the last batch returned, and
// at the end, of all steps.
func (s *stream) stepsDone() int64 {
	if s.reader == nil {
		return s.steps
	}
	return s.steps + s.reader.Steps()
}

// givenSoFar returns the number of rows that each lane has returned so far, see
// lane.Reader.Given. The last batch of a part of the splits may be smaller although its
// lane continues.
func (s *stream) givenSoFar() (rows int64, uneven bool) {
	switch {
	case !s.reading.Part.IsZero():
		return s.amount, false
	case s.reader == nil:
		return s.given, s.uneven
	}
	rows, uneven = s.reader.Given()
	return s.given + rows, s.uneven || uneven
}

// batchesDone returns the number of batches returned so far.
func (s *stream) batchesDone() int64 {
	if s.reader == nil {
		return s.batches
	}
	return s.batches + s.reader.Batches()
}

// skippedSoFar returns the number of rows in the steps of other DataLoader workers so far.
func (s *stream) skippedSoFar() int64 {
	if s.reader == nil {
		return s.skipped
	}
	return s.skipped + s.reader.Skipped()
}

// sentSoFar returns, for each indexed column, the number of distinct rows in the
// batches returned so far.
func (s *stream) sentSoFar() []int64 {
	if s.reader == nil {
		return s.form.sent
	}
	sent := s.reader.Sent()
	for i, before := range s.form.sent {
		sent[i] += before
	}
	return sent
}

// ended reports whether all lanes have returned all of their rows.
func (s *stream) ended() bool {
	for i, at := range s.positions() {
		if at.Range < len(s.start.lanes[i].Ranges) {
			return false
		}
	}
	return true
}

// passedSoFar returns the number of rows, or requests, that each lane has returned or
// skipped so far.
func (s *stream) passedSoFar() []int64 {
	passed := slices.Clone(s.passed)
	if s.reader != nil {
		for i, rows := range s.reader.Passed() {
			passed[i] += rows
		}
	}
	return passed
}

// Cursor implements Progress.
func (s *stream) Cursor() dataset.Cursor {
	c := s.plan.Cursor()
	c.Shard = s.reading.Shard
	c.Step = s.start.step + s.stepsDone()
	given, uneven := s.givenSoFar()
	if s.ended() {
		given = min(given, slices.Max(s.passedSoFar())) // the last step was not full
	}
	c.Given, c.Uneven = s.start.rows+given, s.start.uneven || uneven
	c.At = []dataset.Position{}
	for i, at := range s.positions() {
		c.At = append(c.At, dataset.Position{Lane: s.start.lanes[i].Number, Range: at.Range, Window: at.Window, Row: at.Row})
	}
	if s.start.counts != nil && s.plan.Inexact != "" {
		c.Counted = s.start.counts.Of(c.Shard)
	}
	return c
}

// stepsLeft returns the number of steps after which a reading ends; lane.Unknown means
// after the last row of its lanes.
func (s start) stepsLeft(tail dataset.Tail) int64 {
	if !tail.Drops() {
		return lane.Unknown
	}
	return max(0, s.counts.Shortest-s.rows) / s.q
}
