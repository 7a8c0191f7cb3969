package flight

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"google.golang.org/grpc"

	"github.com/penstock/penstock/flight/access"
	"github.com/penstock/penstock/flight/admission"
	"github.com/penstock/penstock/flight/blocks"
	"github.com/penstock/penstock/flight/call"
	"github.com/penstock/penstock/flight/failure"
	"github.com/penstock/penstock/flight/frames"
	"github.com/penstock/penstock/flight/local"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/jsontext"
	"github.com/penstock/penstock/internal/waits"
	"github.com/penstock/penstock/loader"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/plan/explain"
	"github.com/penstock/penstock/loader/stream"
)

// streamSender sends one stream of batches to a client.
type streamSender struct {
	*Server
	began    time.Time
	log      *slog.Logger
	send     func(*frames.Frame) error
	slot     *admission.Slot
	inflight *frames.StreamInflight
	session  *local.Session // nil: all batches go over the network
	blocks   *blocks.Blocks // nil: the session takes no blocks
	stream   *parkableStream
	running  *runningStream
	dataset  string
	job      string
	tablesID string
	call     *call.Call
	rows     int64
	batches  int64
	bytes    int64
	// mappedBytes is the size of the batches that were delivered in mapped memory. bytes does not include it.
	mappedBytes int64
	cursor      dataset.Cursor
	planText    dataset.PlanText                // of the cursors
	staging     map[string]stream.StagingReport // once the stream has ended
	access      access.Grant                    // of the client
	mayMove     bool                            // the client understands the message moved
	hasMoved    bool                            // the last message was moved
}

// sized returns the query with the number of rows of its batches, if the number is known.
func (p planned) sized() dataset.Query {
	q := p.Query
	if q.BatchRequests == 0 && q.GlobalBatchRows == 0 {
		q.BatchRows = p.BatchRows
	}
	return q
}

// begin logs and reports the beginning of a stream.
func (s *Server) begin(ctx context.Context, c *call.Call, p planned, running *runningStream) *streamSender {
	o := &streamSender{Server: s, call: c, began: s.options.Clock(), running: running, dataset: p.Query.Dataset, job: p.Query.Job, tablesID: p.TablesID, access: p.access}
	o.log = s.options.Logger.With(slog.String("dataset", o.dataset), slog.String("plan", p.ID),
		slog.Int("shard", p.Query.Shard.Index), slog.Int("of", p.Query.Shard.Of))
	for _, of := range c.Attributes() {
		o.log = o.log.With(of)
	}
	o.log = o.log.With(slog.String("stream", running.id))
	if o.job != "" {
		o.log = o.log.With(slog.String("job", o.job))
	}
	if !p.part.IsZero() {
		o.log = o.log.With(slog.Int("split", p.part.From), slog.Int("to", p.part.To))
	}
	for _, cursor := range p.Query.Cursor {
		o.cursor = cursor
	}
	o.call.Note.Stream(p.Planned)
	attributes := []any{"step", o.cursor.Step, "resumed", len(p.Query.Cursor) > 0}
	if m := explain.MixesOf(p.Plan, p.sized(), p.Query.Shard); m.Deviation > 0 {
		attributes = append(attributes, "mixing", math.Round(100*m.Deviation)/100)
		if m.Better != "" {
			attributes = append(attributes, "mix_better", "raise "+m.Better)
		}
	}
	o.log.InfoContext(ctx, "stream begins", attributes...)
	s.options.Observer.StreamBegan(o.dataset, o.job)
	return o
}

// run opens the stream of a plan, sends it, and reports its end. ctx is the context that begin was
// called with. If the client reads nothing for too long, end is called to end the call. The stream
// is counted as open until leave is called.
func (o *streamSender) run(ctx context.Context, to grpc.ServerStream, p planned, end func(error), leave func()) error {
	o.inflight = o.Server.inflight.Enter(o.call.Connection.Client(), end)
	defer o.inflight.Release()
	o.send = func(f *frames.Frame) error {
		if !f.HasBatch() { // a schema or a report
			return o.answers.send(ctx, o.call, to, f, o.inflight)
		}
		return to.SendMsg(f)
	}
	if o.session != nil {
		o.session.OnSeen(o.inflight.Move)
	}
	// The end is reported after a panic, too: the observer counts open streams.
	failed := error(fault.New(fault.Internal, "the stream panicked"))
	defer func() {
		o.slot.Release() // before the end is reported
		if failed != nil {
			o.session.Announce() // the error
		}
		leave()
		label := failure.EndingOf(to.Context(), failed).Label //nolint:contextcheck // that of the call: its client may have cancelled it
		if o.hasMoved && failed == nil {
			label = endMoved
		}
		o.ended(ctx, label, failed)
	}()
	source, err := o.openAt(ctx, o.slot, p)
	if err == nil {
		err = o.serve(ctx, source)
	}
	failed = failure.Cause(ctx, err)
	return failed
}

// serve sends all batches of a source, and releases it.
func (o *streamSender) serve(ctx context.Context, source loader.Stream) error {
	o.stream = newParkableStream(source, o.inflight, o.slot, o.running)
	defer source.Release()
	o.parking.add(o.stream)
	defer o.parking.remove(o.stream)
	err := o.all(ctx)
	o.staging = source.Report().Staging
	if err == nil && !o.hasMoved {
		o.runs.add(Run{Ended: o.options.Clock().UTC().Truncate(time.Millisecond), Plan: o.running.plan, Job: o.job, dataset: o.dataset, tables: o.tablesID}, o.staging)
	}
	return err
}

// ended logs and reports the end of the stream.
func (o *streamSender) ended(ctx context.Context, label string, err error) {
	waited, _, _ := o.running.waits.Now()
	end := StreamEnd{
		Dataset: o.dataset, Job: o.job, End: label, Rows: o.rows, Batches: o.batches, Bytes: o.bytes,
		MappedBytes: o.mappedBytes, Took: o.options.Clock().Sub(o.began), Staging: o.staging,
	}
	o.call.Note.Read(end.Rows, end.Batches, end.Bytes+end.MappedBytes)
	attributes := []any{"end", label, "rows", end.Rows, "batches", end.Batches, "bytes", end.Bytes, "mapped_bytes", end.MappedBytes, "step", o.cursor.Step, "took", end.Took}
	if times := waitedTimes(waited); len(times) > 0 {
		attributes = append(attributes, slog.Group("waited", times...))
	}
	if rates := matchRates(o.staging); len(rates) > 0 {
		attributes = append(attributes, slog.Group("match_rate", rates...))
	}
	if err != nil {
		attributes = append(attributes, "error", err)
	}
	o.log.InfoContext(ctx, "stream ends", attributes...)
	o.warnOfMatches(ctx)
	o.options.Observer.StreamEnded(end)
}

// all sends a stream: its schema, its batches and its report, or the message moved. The schema is sent first, and
// before any row is read unless it depends on the rows. Batches are not prefetched here:
// gRPC writes a message after SendMsg has returned, so the next batch is assembled
// meanwhile. A goroutine in between was not faster.
func (o *streamSender) all(ctx context.Context) error {
	source := o.stream
	work := o.running.waits
	setBack := func() bool { return o.setBack(ctx) }
	waiting, leave := o.waiting(ctx, o.mayMove)
	defer leave()
	end := work.Begin(waits.Join)
	err := withinUntil(ctx, waiting, o.slot, source.Begin, setBack)
	end()
	if err != nil {
		if errors.Is(err, errStops) {
			return shuttingDown()
		}
		return err
	}
	encoder := frames.NewEncoder(source.Schema())
	defer encoder.Close() //nolint:errcheck // writes nothing; failures were returned by batch
	o.call.Note.Columns(source.Schema())
	o.blocks = o.openBlocks(ctx, source.Schema())
	defer o.blocks.Close()
	first, err := encoder.First()
	if err != nil {
		return err
	}
	if err := o.write(first); err != nil {
		return err
	}
	for {
		if o.moves() {
			return o.move()
		}
		more, end := false, work.Begin(waits.Join)
		err := withinUntil(ctx, waiting, o.slot, func() error {
			more = source.Next()
			return source.Err()
		}, setBack)
		end()
		if errors.Is(err, errStops) {
			return o.move()
		}
		if err != nil {
			return err
		}
		if !more {
			break
		}
		o.cursor = source.Cursor()
		o.ends(o.batches + 1)
		if err := o.batch(ctx, encoder, source.RecordBatch(), source.BatchRows()); err != nil {
			return err
		}
	}
	// A source that was canceled has not reached its end.
	if err := ctx.Err(); err != nil {
		return err
	}
	return o.report(source.Report())
}

// setBack undoes the stream's failed step, so that it can be read again, and reports whether it did.
func (o *streamSender) setBack(ctx context.Context) bool {
	if !o.stream.SetBack() {
		return false
	}
	o.log.InfoContext(ctx, "stream waits for memory of others", "step", o.cursor.Step)
	o.options.Observer.StreamSetBack(o.dataset)
	return true
}

// batch sends a batch with the given number of rows.
func (o *streamSender) batch(ctx context.Context, encoder *frames.Encoder, b arrow.RecordBatch, rows int64) error {
	lease := frames.NewBatchLease(b, o.inflight, o.encodings)
	defer lease.Release()
	wire, mapped := o.bytes, o.mappedBytes
	delivered, err := o.deliver(ctx, encoder, b, lease)
	if err == nil && !delivered {
		err = o.transmit(ctx, encoder, b, lease)
	}
	if err != nil {
		return err
	}
	o.rows += rows
	o.batches++
	o.progress()
	o.running.endStep(o.cursor.Step, rows, o.bytes+o.mappedBytes-wire-mapped)
	o.options.Observer.BatchSent(o.dataset, o.job, rows, o.bytes-wire, o.mappedBytes-mapped)
	return nil
}

// transmit sends a batch over the network.
func (o *streamSender) transmit(ctx context.Context, encoder *frames.Encoder, b arrow.RecordBatch, lease *frames.Lease) error {
	made, err := encoder.Batch(b, o.cursor.Text(&o.planText), lease)
	defer func() {
		for _, f := range made {
			f.Release()
		}
	}()
	if err != nil {
		return err
	}
	if err := o.stream.waitingFor(waits.Memory, func() error { return o.inflight.Admit(ctx, lease) }); err != nil {
		return err
	}
	for _, f := range made {
		if err := o.write(f); err != nil {
			return err
		}
	}
	return nil
}

// report sends the last message. A stream without it is incomplete.
func (o *streamSender) report(r stream.Report) error {
	if r.Rows != o.rows || r.Batches != o.batches {
		return fault.New(fault.Internal, "the stream reports %d rows in %d batches, %d in %d were sent", r.Rows, r.Batches, o.rows, o.batches)
	}
	o.session.Announce()
	return o.write(frames.NewFrame(jsontext.Of(struct {
		Report stream.Report `json:"report"`
	}{o.access.RedactedReport(r)})))
}

// write sends a message. It blocks while the client does not read.
func (o *streamSender) write(f *frames.Frame) error {
	n := f.Len()
	if n > o.options.MaxMessage {
		return fault.New(fault.Exhausted, "a message to the client has %d bytes, more than the server's limit of %d", n, o.options.MaxMessage).
			WithRemedy("ask for fewer rows a batch with batch_rows, or for fewer columns")
	}
	f.Hand()
	if err := o.stream.waiting(func() error { return o.send(f) }); err != nil {
		return err
	}
	o.inflight.Move()
	o.bytes += int64(n)
	return nil
}

// matchRates returns, as attributes of a log line, the share of training rows that match each
// staging table. It leaves out tables in which no row was looked up.
func matchRates(staging map[string]stream.StagingReport) []any {
	var rates []any
	for _, name := range slices.Sorted(maps.Keys(staging)) {
		if c := staging[name].Counts; c.Rows > 0 {
			rates = append(rates, slog.Float64(name, float64(c.Matched)/float64(c.Rows)))
		}
	}
	return rates
}

// waitedTimes returns, as attributes of a log line, how long a stream has waited, by cause. It
// leaves out causes without a wait.
func waitedTimes(all waits.Totals) []any {
	var times []any
	for _, c := range waits.Causes() {
		if took := all.Of(c); took > 0 {
			times = append(times, slog.Duration(c.String(), took))
		}
	}
	return times
}

// warnOfMatches logs one line with everything that is suspicious about the joins of a stream that
// has ended.
func (o *streamSender) warnOfMatches(ctx context.Context) {
	var warnings []any
	for _, name := range slices.Sorted(maps.Keys(o.staging)) {
		if text := o.staging[name].Warning; text != "" {
			warnings = append(warnings, slog.String(name, text))
		}
	}
	if len(warnings) > 0 {
		o.log.WarnContext(ctx, "few rows match a staging table", slog.Group("staging", warnings...))
	}
}
