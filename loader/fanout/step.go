package fanout

import (
	"context"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/stream"
)

// taken is a step for one member, which releases it.
type taken struct {
	*stream.Step
	own bool // the member read it itself
}

// release releases the batch.
func (t taken) release() {
	if t.Batch != nil {
		t.Batch.Release()
	}
}

// retained returns a step with a reference to its batch.
func retained(step *stream.Step, own bool) *taken {
	if step.Batch != nil {
		step.Batch.Retain()
	}
	return &taken{step, own}
}

// next returns the next step of a member, or the reason why its group does not have it. An
// error belongs to the member: it read the step itself, or its context has ended.
func (s *Sharer) next(m *groupMember) (*taken, Reason, error) {
	for {
		if m.ctx.Err() != nil {
			return nil, "", context.Cause(m.ctx)
		}
		s.mu.Lock()
		g, place := m.group, m.place()
		i := g.index(place)
		switch {
		case m.handed != nil:
			defer s.mu.Unlock()
			handed := m.handed
			m.handed = nil
			return handed, "", nil
		case i < 0:
			s.mu.Unlock()
			return nil, Behind, nil
		case i < len(g.window):
			defer s.mu.Unlock()
			if g.lacks(m, place) {
				return nil, Skipped, nil
			}
			s.shared++
			return retained(g.window[i], false), "", nil
		case g.end != nil:
			defer s.mu.Unlock()
			return retained(g.end, false), "", nil
		case g.pulling:
			s.wait(m, g)
		default:
			if other := s.find(m, g); other != nil {
				s.move(m, other)
				continue
			}
			pulled, err := s.pull(m, g, g.readStep(m))
			if pulled != nil || err != nil {
				return pulled, "", err
			}
		}
	}
}

// begin decides the form of a member's group by its first batch.
func (s *Sharer) begin(m *groupMember) (stream.Form, error) {
	for {
		if m.ctx.Err() != nil {
			return stream.Form{}, context.Cause(m.ctx)
		}
		s.mu.Lock()
		g := m.group
		switch {
		case g.formed:
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

// move moves a member to another group. s.mu is held, and unlocked.
func (s *Sharer) move(m *groupMember, to *readerGroup) {
	var dropped trash
	s.leave(m, &dropped)
	s.join(m, to)
	s.mu.Unlock()
	dropped.release()
}

// wait waits for the end of a pull. If that was of the member's next step, the member is handed
// the step. s.mu is held, and unlocked.
func (s *Sharer) wait(m *groupMember, g *readerGroup) {
	pulled := g.pulled
	g.waiting[m] = struct{}{}
	s.mu.Unlock()
	select {
	case <-pulled:
	case <-m.ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(g.waiting, m)
}

// read is what a member does with a group's reader: it reads a step, or nothing.
type read func(r *stream.ShardReader) (*stream.Step, error)

// readForm decides the form.
func readForm(r *stream.ShardReader) (*stream.Step, error) { return nil, r.Begin() }

// readStep reads the next step, whose batch is not made if no member takes it. s.mu is held.
func (g *readerGroup) readStep(by *groupMember) read {
	step, skip := g.front().Step(), true
	for m := range g.members {
		if m == by || m.place().Step() <= step {
			skip = skip && !m.own.TakesAt(step)
		}
	}
	return func(r *stream.ShardReader) (*stream.Step, error) { return r.ReadStep(skip) }
}

// pull reads for a group. Reading continues after the member's context has ended while
// other members need it. s.mu is held, and unlocked.
func (s *Sharer) pull(m *groupMember, g *readerGroup, read read) (*taken, error) {
	g.pulling, g.pulled = true, make(chan struct{})
	reader := g.reader
	s.mu.Unlock()

	var step *stream.Step
	// If reading panics, the other members must not wait forever.
	err := error(fault.New(fault.Internal, "the reader of a group broke down"))
	var mine *taken
	func() {
		defer func() { mine = s.pulled(g, reader, step, err) }()
		if reader == nil {
			if reader, err = m.reader(g); err != nil {
				return
			}
		}
		step, err = read(reader)
	}()
	if err != nil && g.ctx.Err() != nil {
		return nil, context.Cause(m.ctx) // all members have gone
	}
	return mine, err
}

// pulled ends a pull: it adds the step to the window, and hands it to the waiting members. A
// reader that failed is released, and the next member that pulls opens another one.
func (s *Sharer) pulled(g *readerGroup, reader *stream.ShardReader, step *stream.Step, err error) *taken {
	if err != nil && reader != nil {
		reader.Release()
		reader = nil
	}
	if step != nil {
		publish(step)
	}
	var dropped trash
	s.mu.Lock()
	g.reader, g.pulling = reader, false
	var mine *taken
	if err == nil {
		g.form, g.formed = reader.Form()
	}
	if step != nil {
		mine = s.hand(g, step, &dropped)
	}
	close(g.pulled)
	s.mu.Unlock()
	dropped.release()
	return mine
}

// hand gives a step to the member that read it, to the waiting members, and to the window.
func (s *Sharer) hand(g *readerGroup, step *stream.Step, dropped *trash) *taken {
	for w := range g.waiting {
		skipped := step.Batch == nil && !step.End && w.own.TakesAt(w.place().Step()) // it joined too late
		if w.handed == nil && !skipped && w.place().Equal(g.front()) {
			w.handed = retained(step, false)
			s.shared++
		}
	}
	if step.End {
		g.end = step
		dropped.readers, g.reader = append(dropped.readers, g.reader), nil
		return &taken{step, true}
	}
	mine := retained(step, true)
	s.keep(g, step, dropped)
	return mine
}

// keep appends a step to the window, and drops the oldest steps beyond the bounds, of the groups
// with the most bytes. It drops all steps if the group has a single member, or if memory is short.
func (s *Sharer) keep(g *readerGroup, step *stream.Step, dropped *trash) {
	if g.ctx.Err() != nil { // all members have gone
		dropped.batches = append(dropped.batches, step.Batch)
		return
	}
	g.window = append(g.window, step)
	g.bytes += bytesOf(step)
	s.bytes += bytesOf(step)
	if len(g.window) > maxSteps {
		g.drop(1, dropped)
	}
	for s.bytes > s.options.Window {
		s.largest().drop(1, dropped)
	}
	g.gathers = g.gathers && g.bytes <= s.options.Window/gatherDivisor
	if len(g.members) == 1 && !g.gathers || !s.options.Budget.Plentiful() {
		g.drop(len(g.window), dropped)
	}
}

// largest returns the group whose window has the most bytes. s.mu is held.
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
