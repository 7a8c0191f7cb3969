package fanout

import (
	"context"
	"sync/atomic"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock/penstock/internal/trace"
	"github.com/penstock/penstock/loader"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/lane"
	"github.com/penstock/penstock/loader/stream"
)

var _ loader.Stream = (*groupMember)(nil)

// groupMember is a stream that takes the steps of a group, or reads alone. The stream's own
// ShardReader holds its position and its counts. It is parked while the member takes steps of a
// group.
//
//	          enter              cannot take the step
//	outside ─────────► in group ────────────────────────► alone
//	   ▲                  │  ▲                              │
//	   └──────────────────┘  └──────────────────────────────┘
//	    behind, or parked      a group serves its position
//
// Its state is sharing outside and in a group.
type groupMember struct {
	sharer  *Sharer
	opener  ReaderOpener
	ctx     context.Context //nolint:containedctx // a reader's pulls carry no context of their own
	planned loader.Planned
	options loader.StreamOptions
	key     string
	spec    batchSpec
	own     *stream.ShardReader
	refs    atomic.Int64

	membership
	lastBatch

	begun bool // the member has taken a step
	state memberState
	err   error
}

// memberState is how a member gets its next batch.
type memberState int

const (
	sharing  memberState = iota // it takes the next step of a group
	weighing                    // it reads alone, and its own reader has weighed the batch
	solitary                    // alone
	ended                       // there is no next batch
)

// alone reports whether the member reads alone.
func (s memberState) alone() bool {
	switch s {
	case weighing, solitary:
		return true
	case sharing, ended:
	}
	return false
}

// membership is the part of a member's state that the Sharer uses too. The member writes it only
// while it holds Sharer.mu.
type membership struct {
	group  *readerGroup // nil: the member is in no group
	comes  *readerGroup // the group that the member approaches, see Sharer.approach; nil: none
	handed *taken       // the next step, handed over by another member that read it while this member waited
	at     stream.StepPlace
	leaves func() bool // cancels the call of Sharer.gone that is registered for the end of the context
	why    Reason      // why the member reads without a group; "": it does not
	form   stream.Form // the form of the member's batches
	apart  apartness
}

// lastBatch is the batch that a member returned last.
type lastBatch struct {
	batch arrow.RecordBatch // nil: there is none, or the member's own reader returned it
	rows  int64
	again int64 // how many training rows the member reads again for its group, minus the rows returned since
}

// releaseBatch releases the batch.
func (l *lastBatch) releaseBatch() {
	if l.batch != nil {
		l.batch.Release()
		l.batch = nil
	}
}

// newMember opens a stream.
func (s *Sharer) newMember(ctx context.Context, opener ReaderOpener, p loader.Planned, o loader.StreamOptions) (*groupMember, error) {
	o.Stepwise = true
	own, err := opener.OpenReader(ctx, p, o)
	if err != nil {
		return nil, err
	}
	own.Park(false) // a parked reader holds nothing except its position
	at := own.Place()
	key, err := keyOf(p, o, at.Step()*own.PerLane()-at.PerLane())
	if err != nil {
		own.Release()
		return nil, err
	}
	spec := batchSpec{columns: columnsOf(p), perLane: own.PerLane()}
	m := &groupMember{sharer: s, opener: opener, ctx: ctx, planned: p, options: o, key: key, spec: spec, own: own, membership: membership{at: at, form: own.Form()}}
	m.refs.Store(1)
	s.mu.Lock()
	s.streams[m] = struct{}{}
	s.mu.Unlock()
	return m, nil
}

// reader opens a reader for a group at the member's position. p is the group's planned query, and
// form the form of its batches.
func (m *groupMember) reader(ctx context.Context, p loader.Planned, form stream.Form) (*stream.StepReader, error) {
	p.Query.Cursor = m.own.Resumption()
	r, err := m.opener.OpenReader(ctx, p, m.options)
	if err != nil {
		return nil, err
	}
	if form.Decided() {
		r.SetForm(form)
	}
	m.again = m.own.Again()
	return stream.NewStepReader(r), nil
}

// Begin implements loader.Stream.
func (m *groupMember) Begin() error {
	if m.own.Form().Decided() || m.Err() != nil {
		return m.Err()
	}
	if m.limitedWithin() {
		m.readAlone(Form) // with its limit, the member's first batch may be shorter than the group's first batch
	}
	if !m.state.alone() && !m.enter() {
		m.readAlone(Crowded)
	}
	if m.state.alone() {
		m.state = weighing
		m.err = m.own.Begin()
		m.noteForm()
		return m.err
	}
	form, err := m.sharer.begin(m)
	if err != nil {
		m.err = err
		m.leave("")
		return err
	}
	m.own.SetForm(form)
	m.noteForm()
	return nil
}

// noteForm tells the Sharer the form of the member's batches.
func (m *groupMember) noteForm() {
	m.sharer.mu.Lock()
	defer m.sharer.mu.Unlock()
	m.form = m.own.Form()
}

// enter adds the member to a group, unless it is in a group already. It returns false if there are
// too many groups.
func (m *groupMember) enter() bool {
	m.sharer.mu.Lock()
	defer m.sharer.mu.Unlock()
	return m.group != nil || m.sharer.enter(m)
}

// limitedWithin reports whether the member may reach its limit in the next step. Batches of a
// stream with a limit consist of rows, not of requests.
func (m *groupMember) limitedWithin() bool {
	left := m.own.Left()
	return left != lane.Unknown && left <= int64(m.planned.BatchRows)
}

// readAlone makes the member read alone from its next step on.
func (m *groupMember) readAlone(why Reason) {
	m.leave(why)
	m.state = solitary
}

// leave makes the member leave its group, if it is in a group.
func (m *groupMember) leave(why Reason) {
	var dropped trash
	s := m.sharer
	s.mu.Lock()
	if why != "" {
		s.alone[why]++
		m.why = why
		m.apart.leave(why)
	}
	s.leave(m, &dropped)
	s.mu.Unlock()
	dropped.release()
	if why != "" {
		s.log.DebugContext(m.ctx, "stream leaves its group", "plan", m.planned.ID, "shard", m.planned.Query.Shard.Index, "step", m.at.Step(), "reason", string(why))
	}
}

// Next implements array.RecordReader.
func (m *groupMember) Next() bool {
	m.releaseBatch()
	if m.state == ended || m.Begin() != nil {
		return false
	}
	for {
		if m.state == solitary {
			m.rejoin()
		}
		if m.state == sharing && m.limitedWithin() {
			m.readAlone(Limited)
		}
		if m.state == sharing && !m.enter() {
			m.readAlone(Crowded)
		}
		if m.state != sharing {
			return m.nextAlone()
		}
		step, why, err := m.sharer.next(m)
		switch {
		case err != nil:
			m.err = err
			m.leave("")
			return false
		case step == nil:
			m.leave(why)
			continue
		}
		trace.Of(m.ctx).Refer(step.block.readIn)
		if more, some := m.take(step); !more {
			return some
		}
	}
}

// take takes a step of the group. more reports that the member needs another step. If more is
// false, some reports whether the member has a batch.
func (m *groupMember) take(step *taken) (more, some bool) {
	skip := !step.End && !m.own.TakesAt(m.at.Step())
	var view arrow.RecordBatch
	if !step.End && !skip {
		view, m.err = step.block.view(m, step.StepSlice)
		m.sharer.countView(view != step.Batch)
	}
	step.release()
	if m.err == nil {
		m.err = m.own.TakeStep(step.StepSlice, view, skip, step.own)
	}
	if m.err != nil {
		if view != nil {
			view.Release()
		}
		m.leave("")
		return false, false
	}
	m.stand()
	switch {
	case step.End:
		m.state = ended
		m.leave("")
		return false, false
	case skip:
		return true, false
	}
	m.batch, m.rows = view, step.Rows()
	m.again -= min(m.again, m.rows)
	return false, true
}

// stand updates the member's position after a step.
func (m *groupMember) stand() {
	at := m.own.Place()
	m.sharer.mu.Lock()
	defer m.sharer.mu.Unlock()
	m.at, m.begun = at, true
	m.apart.passed()
}

// nextAlone reads the next batch with the member's own reader.
func (m *groupMember) nextAlone() bool {
	m.state = solitary
	if !m.own.Next() {
		if m.err = m.own.Err(); m.err == nil {
			m.state = ended
		}
		return false
	}
	m.rows = m.own.BatchRows()
	m.stand()
	return true
}

// rejoin joins a group that serves the member's position, if there is one.
func (m *groupMember) rejoin() {
	if m.limitedWithin() {
		return
	}
	s := m.sharer
	s.mu.Lock()
	g := s.find(m, nil)
	if g != nil {
		s.join(m, g)
	}
	s.mu.Unlock()
	if g != nil {
		m.own.Park(false)
		m.state = sharing
	}
}

// Park implements loader.Stream. If the member is in a group, it leaves the group. When the last
// member leaves, the group stops reading.
func (m *groupMember) Park(pressed bool) bool {
	if m.Err() != nil || m.state == ended {
		return false
	}
	if m.state.alone() {
		return m.own.Park(pressed)
	}
	if m.group == nil || pressed && m.again > 0 {
		return false
	}
	m.releaseBatch()
	m.leave(Parked)
	return true
}

// SetBack implements loader.Stream. If the step failed in a group, the member has already left the
// group, and its own reader is at the end of the last step that the member took.
func (m *groupMember) SetBack() bool {
	switch {
	case m.state.alone():
		if !m.own.SetBack() {
			return false
		}
	case m.err == nil || m.own.Err() != nil:
		return false
	}
	m.err = nil
	return true
}

// Release implements array.RecordReader.
func (m *groupMember) Release() {
	if m.refs.Add(-1) != 0 {
		return
	}
	m.releaseBatch()
	m.leave("")
	m.sharer.mu.Lock()
	delete(m.sharer.streams, m)
	m.sharer.mu.Unlock()
	m.own.Release()
}

// Retain implements array.RecordReader.
func (m *groupMember) Retain() { m.refs.Add(1) }

// Schema implements array.RecordReader. With wire: auto it is final only after Begin.
func (m *groupMember) Schema() *arrow.Schema { return m.own.Schema() }

// RecordBatch implements array.RecordReader.
func (m *groupMember) RecordBatch() arrow.RecordBatch {
	if m.state.alone() {
		return m.own.RecordBatch()
	}
	if m.batch == nil {
		return nil
	}
	return m.batch
}

// Record is the old name of RecordBatch in the Arrow library.
func (m *groupMember) Record() arrow.RecordBatch { return m.RecordBatch() }

// Err implements array.RecordReader.
func (m *groupMember) Err() error {
	if m.err != nil {
		return m.err
	}
	return m.own.Err()
}

// BatchRows implements loader.Progress.
func (m *groupMember) BatchRows() int64 { return m.rows }

// Cursor implements loader.Progress.
func (m *groupMember) Cursor() dataset.Cursor { return m.own.Cursor() }

// Report implements loader.Stream.
func (m *groupMember) Report() stream.Report { return m.own.Report() }
