package fanout

import (
	"context"
	"slices"
	"time"

	"github.com/penstock/penstock/loader/stream"
)

const (
	// maxGroups bounds the groups of one key: each is looked at when a stream looks for a group.
	maxGroups = 64
	// A group with one member may gather Options.Window/gatherDivisor bytes at its origin. Keeping
	// batches costs CPU time, since each takes memory that is in no CPU cache: for 256 MiB, an eighth of an
	// epoch of benchmark table T. So a stream that reads more than gatherRate bytes per second gathers
	// little more than fastGathered: its batches would be useful only for a moment.
	gatherDivisor = 4
	fastGathered  = 16 << 20
	gatherRate    = 64 << 20
	// maxSteps bounds the steps of a window, whose counts take memory besides the batches.
	maxSteps = 1024
	// unneededSteps is the number of steps for which a group's reader continues to read columns that no
	// member takes: a reader without them would read rows again.
	unneededSteps = 32
)

// readerGroup is the members that take the steps of one reader, and the window of its last
// steps.
type readerGroup struct {
	sharer *Sharer
	key    string
	age    int64
	began  time.Time       // when its first step was read
	ctx    context.Context //nolint:containedctx // of the reader: it ends with the last member
	cancel context.CancelFunc

	formDecision
	stepWindow
	reading // as the last pull left it
	spec    groupSpec

	members map[*groupMember]struct{}
	// coming are streams that read the steps up to the group's front themselves, and then join: the
	// window lacks columns or rows that they need.
	coming  map[*groupMember]struct{}
	failed  bool // no member joins: the reader fails, perhaps by what only some members need
	pulling bool
	marks   int64                     // of the step that is read, see batchSpec.marks
	pulled  chan struct{}             // closed at the end of the pull
	waiting map[*groupMember]struct{} // for it
}

// groupSpec is the batches that a group reads: at least what its members need.
type groupSpec struct {
	batchSpec                  // of the reader; during a pull, of the step that is read
	fixed     bool             // it does not change: what members need together cannot be read
	needs     *selectedColumns // that the members need; nil: not yet known
	spare     int              // steps for which it has had columns that no member takes
}

// mayHave reports whether the group has the batches of a member, or may read them.
func (g *groupSpec) mayHave(o batchSpec) bool { return !g.fixed || g.contains(o) }

// toRead returns the spec of the next step, given what members need of it. Columns that no member takes any more
// stay for some steps.
func (g *groupSpec) toRead(need batchSpec) batchSpec {
	switch {
	case !g.columns.contains(need.columns):
		g.spare = 0
	case need.columns.contains(g.columns): // perhaps in another order
		g.spare, need.columns = 0, g.columns
	case g.spare < unneededSteps:
		g.spare++
		need.columns = g.columns
	}
	return need
}

// formDecision is the form of a group's batches, once it is decided. A group that decides it does so
// by its first batch.
type formDecision struct {
	form    stream.Form
	decides bool
	origin  stream.StepPlace // where the group began
	first   batchSpec        // of its first batch
}

// stepWindow is the last steps of a group.
type stepWindow struct {
	tail   stream.StepPlace // before the window
	window []*block         // without the end
	bytes  int64            // of the window
	end    *block           // at the front; nil: not reached
	// gathers is set while the group keeps all steps since its origin, up to Sharer.gatherable bytes: for
	// streams that start a little later, or fall behind soon after its first member did.
	gathers bool
}

// front returns the place after the last step.
func (g *readerGroup) front() stream.StepPlace {
	if len(g.window) == 0 {
		return g.tail
	}
	return g.window[len(g.window)-1].After()
}

// find returns the index in the window of the step with the rows after a place; len(window) is
// the front. It returns false if the place is outside of the window, or no place of the group's
// rows.
func (g *readerGroup) find(at stream.StepPlace) (index int, ok bool) {
	if at.SameRows(g.front()) {
		return len(g.window), true
	}
	if at.PerLane() < g.tail.PerLane() {
		return 0, false
	}
	i, _ := slices.BinarySearchFunc(g.window, at.PerLane(), func(b *block, rows int64) int {
		if b.After().PerLane() <= rows {
			return -1
		}
		return 1
	})
	return i, i < len(g.window)
}

// serves reports whether the group has, or reads next, the step of a member after its place.
func (g *readerGroup) serves(m *groupMember) bool {
	i, ok := g.find(m.at)
	switch {
	case !ok:
		return false
	case i < len(g.window):
		_, ok := g.window[i].sliceFor(m)
		return ok
	case g.end != nil:
		return true
	case g.pulling:
		return g.spec.contains(m.spec) && (m.spec.perLane == g.spec.perLane || g.marks > 0 && m.spec.perLane%g.marks == 0)
	case !g.spec.mayHave(m.spec):
		return false
	}
	return g.fits(m, false)
}

// fits reports whether a member's batches, and those of the members, can be taken of one reader's steps:
// with coming, also those of the streams that are coming.
func (g *readerGroup) fits(m *groupMember, coming bool) bool {
	all := []batchSpec{m.spec}
	for o := range g.members {
		all = append(all, o.spec)
	}
	if !g.needed().columns.agrees(m.spec.columns) {
		return false
	}
	for o := range g.coming {
		if !coming || o == m {
			continue
		}
		if !o.spec.columns.agrees(m.spec.columns) {
			return false
		}
		all = append(all, o.spec)
	}
	return divide(g.spec.perLane, all)
}

// admits reports whether a member may join the group, or come to it. A member that stays apart, and
// members of the group that do, share only with streams that need the same.
func (g *readerGroup) admits(m *groupMember) bool {
	if g.failed || !g.agrees(m) {
		return false
	}
	apart := m.apart.steps > 0
	for o := range g.members {
		apart = apart || o.apart.steps > 0
	}
	return !apart || g.spec.equal(m.spec)
}

// needed returns the spec that the members need together.
func (g *readerGroup) needed() batchSpec {
	need := batchSpec{columns: g.spec.needs, perLane: g.spec.perLane}
	for m := range g.members {
		need.perLane = max(need.perLane, m.spec.perLane)
		switch {
		case g.spec.needs != nil:
		case need.columns == nil:
			need.columns = m.spec.columns
		default:
			need.columns = need.columns.with(m.spec.columns) // they have joined: no names differ
		}
	}
	if need.columns == nil {
		return g.spec.batchSpec
	}
	g.spec.needs = need.columns
	return need
}

// next returns the spec and the form with which the group reads its next step: what its members need,
// and those that are coming, if a step of theirs begins there.
func (g *readerGroup) next() (batchSpec, stream.Form) {
	if g.spec.fixed {
		return g.spec.batchSpec, g.form
	}
	need, form := g.needed(), g.form
	for m := range g.coming {
		if (g.front().PerLane()-m.at.PerLane())%m.spec.perLane != 0 || !form.Agrees(m.form) {
			continue
		}
		if have := g.spec.columns; have.contains(m.spec.columns) && have.contains(need.columns) {
			need.columns = have
		}
		if union, ok := need.with(m.spec); ok {
			need, form = union, form.With(m.form)
		}
	}
	return g.spec.toRead(need), form
}

// specs returns the specs of the members, and then of those that are coming.
func (g *readerGroup) specs() []batchSpec {
	var all []batchSpec
	for m := range g.members {
		all = append(all, m.spec)
	}
	for m := range g.coming {
		all = append(all, m.spec)
	}
	return all
}

// keepsNone reports whether no stream needs the steps of the window.
func (g *readerGroup) keepsNone() bool {
	return len(g.members) == 1 && !g.gathers && len(g.coming) == 0
}

// drop removes the first steps of the window.
func (g *readerGroup) drop(steps int, to *trash) {
	for _, b := range g.window[:steps] {
		b.dropped = true
		g.bytes -= b.bytes
		g.sharer.bytes -= b.bytes
		to.blocks = append(to.blocks, b)
	}
	if steps > 0 {
		g.tail = g.window[steps-1].After()
		g.gathers = false
	}
	clear(g.window[:steps])
	g.window = g.window[steps:]
	for m := range g.coming {
		if m.at.PerLane() < g.tail.PerLane() {
			g.sharer.stray(m)
		}
	}
}
