package fanout

import (
	"context"
	"time"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/trace"
	"github.com/penstock/penstock/internal/waits"
	"github.com/penstock/penstock/loader/stream"
)

// taken is a step that one member takes. The member must release it.
type taken struct {
	stream.StepSlice
	block *block
	own   bool // the member itself has read the step
}

// release releases the reference to the block's batch.
func (t *taken) release() {
	if t.Batch != nil {
		t.Batch.Release()
	}
}

// takenBy returns a member's next step, with a reference to the block's batch. It returns nil if
// the block does not contain the step.
func (b *block) takenBy(m *groupMember, own bool) *taken {
	slice, ok := b.sliceFor(m)
	if !ok {
		return nil
	}
	if b.Batch != nil {
		b.Batch.Retain()
	}
	return &taken{slice, b, own}
}

// next returns the next step of a member, or the reason why the member's group does not have the
// step. It returns an error only if the member has tried to read the step and failed, or if the
// member's context has ended.
func (s *Sharer) next(m *groupMember) (*taken, Reason, error) {
	for {
		if m.ctx.Err() != nil {
			return nil, "", context.Cause(m.ctx)
		}
		s.mu.Lock()
		g := m.group
		i, ok := g.find(m.at)
		switch {
		case m.handed != nil:
			defer s.mu.Unlock()
			handed := m.handed
			m.handed = nil
			return handed, "", nil
		case !ok:
			s.mu.Unlock()
			return nil, Behind, nil
		case i < len(g.window):
			defer s.mu.Unlock()
			step := g.window[i].takenBy(m, false)
			if step == nil {
				return nil, g.window[i].lacks(m), nil
			}
			s.shared++
			return step, "", nil
		case g.end != nil:
			defer s.mu.Unlock()
			return g.end.takenBy(m, false), "", nil
		case g.spares(m):
			s.mu.Unlock()
			return nil, Failing, nil
		case g.pulling:
			s.wait(m, g)
		case !g.spec.mayHave(m.spec):
			s.mu.Unlock()
			return nil, Lacking, nil
		default:
			if other := s.better(m); other != nil {
				s.move(m, other)
				continue
			}
			s.approach(m)
			pulled, err := s.pull(m, g, g.readStep())
			if err != nil && s.sparedBy(m, g) {
				continue
			}
			if pulled != nil || err != nil {
				return pulled, "", err
			}
		}
	}
}

// spares reports whether the failure of the group's reader leaves the member unaffected. This is so
// if the reader reads other columns or batch sizes than the member needs; the member then reads
// without the group. s.mu is held.
func (g *readerGroup) spares(m *groupMember) bool { return g.failed && !g.spec.equal(m.spec) }

// sparedBy is like spares, for a caller that does not hold s.mu.
func (s *Sharer) sparedBy(m *groupMember, g *readerGroup) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return g.spares(m)
}

// lacks returns the reason why the block does not contain the next step of a member.
func (b *block) lacks(m *groupMember) Reason {
	if b.Batch == nil && b.spec.contains(m.spec) {
		return Skipped
	}
	return Lacking
}

// begin returns the form of a member's group. If the form is not decided yet, begin reads the
// group's first batch to decide it.
func (s *Sharer) begin(m *groupMember) (stream.Form, error) {
	for {
		if m.ctx.Err() != nil {
			return stream.Form{}, context.Cause(m.ctx)
		}
		s.mu.Lock()
		g := m.group
		switch {
		case g.form.Decided():
			defer s.mu.Unlock()
			return g.form, nil
		case g.pulling:
			s.wait(m, g)
		default:
			if _, err := s.pull(m, g, readForm); err != nil {
				return stream.Form{}, err
			}
		}
	}
}

// move moves a member to another group. The caller holds s.mu, and move unlocks it.
func (s *Sharer) move(m *groupMember, to *readerGroup) {
	var dropped trash
	s.leave(m, &dropped)
	s.join(m, to)
	s.mu.Unlock()
	dropped.release()
}

// wait waits for the end of a pull, or of the member's context. If the pull reads the member's next
// step, m.handed is set to it. The caller holds s.mu, and wait unlocks it.
func (s *Sharer) wait(m *groupMember, g *readerGroup) {
	pulled := g.pulled
	g.waiting[m] = struct{}{}
	s.mu.Unlock()
	defer waits.Of(m.ctx).Follow(waits.Of(g.ctx))()
	select {
	case <-pulled:
	case <-m.ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(g.waiting, m)
}

// read reads with a group's reader. It returns the step that it has read, or nil if it has read no
// step.
type read func(r *stream.StepReader) (*stream.Step, error)

// readForm decides the form of a group's batches without reading a step.
func readForm(r *stream.StepReader) (*stream.Step, error) { return nil, r.Begin() }

// readStep returns a function that reads the next step. If no member returns the step, the function
// does not make the step's batch. s.mu is held.
func (g *readerGroup) readStep() read {
	skip := len(g.coming) == 0
	for m := range g.members {
		steps := (g.front().PerLane() - m.at.PerLane()) / m.spec.perLane
		skip = skip && m.spec.perLane == g.spec.perLane && !m.own.TakesAt(m.at.Step()+steps)
	}
	return func(r *stream.StepReader) (*stream.Step, error) { return r.ReadStep(skip) }
}

// pull reads for a group, on behalf of a member. If the member's context ends, reading continues as
// long as the group has other members. The caller holds s.mu, and pull unlocks it.
func (s *Sharer) pull(m *groupMember, g *readerGroup, read read) (*taken, error) {
	need, form := g.next()
	got := pullResult{reading: g.reading, spec: g.spec.batchSpec}
	g.pulling, g.pulled, g.spec.batchSpec = true, make(chan struct{}), need
	marks := int64(0)
	if sizesMayDiffer(m.planned) && !g.keepsNone() { // marks are needed only if some stream may take a slice of the step
		marks = need.marks(g.specs())
	}
	g.marks = marks
	if g.form.Decided() {
		g.form = form // streams that join during the pull must agree with it
	}
	decided := g.form
	s.mu.Unlock()

	has := got.spec
	// If reading panics, the other members must not wait forever.
	got.err = fault.New(fault.Internal, "the reader of a group panicked")
	var mine *taken
	func() {
		defer func() { mine = s.pulled(m, g, got) }()
		defer waits.Of(m.ctx).Follow(waits.Of(g.ctx))()
		defer waits.Begin(g.ctx, waits.Join)()
		defer trace.Of(m.ctx).Lend(trace.Of(g.ctx))()
		spec, err := got.open(g.ctx, m, has, need, decided)
		got.spec, got.fixed = spec, !spec.equal(need)
		if err == nil {
			got.reader.MarkEvery(marks)
			got.step, err = read(got.reader)
		}
		got.err = err
	}()
	if !has.contains(got.spec) {
		s.countWidened()
	}
	if got.err != nil && g.ctx.Err() != nil {
		return nil, context.Cause(m.ctx) // all members have left
	}
	return mine, got.err
}

// countWidened counts that a reader was opened again to read more than before.
func (s *Sharer) countWidened() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.widened++
}

// pullResult is the result of a pull.
type pullResult struct {
	reading
	spec  batchSpec // the spec of the reader
	fixed bool      // the reader could not be opened with the spec that was needed
	step  *stream.Step
	err   error
}

// pulled ends a member's pull: it adds the step to the window, and hands the step to the waiting
// members. If reading failed, it releases the reader, and the next member that pulls opens another
// reader. If the reader read more than this member needs, the needs of other members may have
// caused the failure. Then pulled sets g.failed, so that no more streams join the group.
func (s *Sharer) pulled(m *groupMember, g *readerGroup, got pullResult) *taken {
	if got.err != nil {
		got.close()
	}
	var dropped trash
	defer dropped.release()
	var read *block
	if got.step != nil {
		read = newBlock(g, got.step, got.spec)
		read.readIn = trace.Of(m.ctx).Here()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	g.reading, g.pulling = got.reading, false
	g.spec.batchSpec, g.spec.fixed = got.spec, g.spec.fixed || got.fixed
	var mine *taken
	if got.err == nil {
		g.form = got.reader.Form()
	} else if !got.spec.equal(m.spec) {
		g.failed = true
	}
	if read != nil {
		mine = s.hand(m, g, read, &dropped)
	}
	close(g.pulled)
	return mine
}

// hand gives a block to the member that read it and to the waiting members, and adds it to the
// window. A block that stands for the end of the stream is not added to the window, but becomes
// g.end.
func (s *Sharer) hand(m *groupMember, g *readerGroup, read *block, dropped *trash) *taken {
	for w := range g.waiting {
		if w.handed == nil && w.at.SameRows(g.front()) {
			if w.handed = read.takenBy(w, false); w.handed != nil {
				s.shared++
			}
		}
	}
	mine := read.takenBy(m, true)
	if read.End {
		g.end = read
		dropped.readers, g.reader = append(dropped.readers, g.reader), nil
		return mine
	}
	s.keep(g, read, dropped)
	return mine
}

// keep appends a step to the group's window. If the window then has more than maxSteps steps, it
// drops the window's oldest step. While all windows together have too many bytes, it drops the
// oldest step of the largest window. It drops all steps of the group if no other stream may need
// them, or if memory is short.
func (s *Sharer) keep(g *readerGroup, read *block, dropped *trash) {
	if g.ctx.Err() != nil { // all members have left
		read.dropped = true
		dropped.blocks = append(dropped.blocks, read)
		return
	}
	if g.began.IsZero() {
		g.began = s.now()
	}
	g.window = append(g.window, read)
	g.bytes += read.bytes
	s.bytes += read.bytes
	if len(g.window) > maxSteps {
		g.drop(1, dropped)
	}
	for s.bytes > s.options.Window {
		s.largest().drop(1, dropped)
	}
	g.gathers = g.gathers && g.bytes <= s.gatherable(s.now().Sub(g.began))
	if g.keepsNone() || !s.options.Budget.Plentiful() {
		g.drop(len(g.window), dropped)
	}
}

// gatherable returns how many bytes of steps a group with one member may keep since its origin,
// given the time since the group's first step.
func (s *Sharer) gatherable(took time.Duration) int64 {
	return min(s.options.Window/gatherDivisor, fastGathered+int64(took.Seconds()*gatherRate))
}

// largest returns the group with the largest window, in bytes. s.mu is held.
func (s *Sharer) largest() *readerGroup {
	var largest *readerGroup
	for _, groups := range s.groups {
		for _, g := range groups {
			if largest == nil || g.bytes > largest.bytes {
				largest = g
			}
		}
	}
	return largest
}
