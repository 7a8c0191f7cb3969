package fanout

import (
	"context"
	"slices"
	"time"

	"github.com/penstock/penstock/loader/stream"
)

const (
	// maxGroups is the maximum number of groups of one key. It is limited because a stream that
	// looks for a group checks all of them.
	maxGroups = 64
	// A group with one member may keep up to Options.Window/gatherDivisor bytes of steps since its
	// origin. Keeping batches costs CPU time, since each batch then takes memory that is not in a
	// CPU cache. Keeping 256 MiB costs an eighth of the time of an epoch of benchmark table T. A
	// stream that reads more than gatherRate bytes per second passes the kept steps so quickly that
	// they are useful only for a moment, so it keeps little more than fastGathered bytes.
	gatherDivisor = 4
	fastGathered  = 16 << 20
	gatherRate    = 64 << 20
	// maxSteps is the maximum number of steps of a window. It is limited because the counts of
	// steps take memory in addition to the batches.
	maxSteps = 1024
	// unneededSteps is the number of steps for which a group's reader continues to read columns
	// that no member takes any more. Opening a reader without these columns would read some rows
	// again.
	unneededSteps = 32
)

// readerGroup consists of the members that take the steps of one reader, and the window of the
// reader's last steps.
type readerGroup struct {
	sharer *Sharer
	key    string
	age    int64
	began  time.Time       // when its first step was read
	ctx    context.Context //nolint:containedctx // the reader's context, which ends with the last member
	cancel context.CancelFunc

	formDecision
	stepWindow
	reading // the reader, in the state in which the last pull has left it
	spec    groupSpec

	members map[*groupMember]struct{}
	// coming holds streams that will join the group, although its window lacks columns or rows that
	// they need. They read the steps up to the group's front themselves, and then join.
	coming  map[*groupMember]struct{}
	failed  bool // no member may join, since the reader has failed, perhaps because of something that only some members need
	pulling bool
	marks   int64                     // the distance of marks in the step that is being read, see batchSpec.marks
	pulled  chan struct{}             // closed at the end of the current pull
	waiting map[*groupMember]struct{} // the members that wait for the end of the pull
}

// groupSpec describes the batches that a group reads. They contain at least what the group's
// members need.
type groupSpec struct {
	batchSpec                  // the spec of the reader; during a pull, the spec of the step that is being read
	fixed     bool             // the spec does not change any more, since what members need together cannot be read
	needs     *selectedColumns // the columns that the members need; nil: not yet known
	spare     int              // for how many steps the spec has had columns that no member takes
}

// mayHave reports whether the group's spec contains the batches of a member, or can be changed to
// contain them.
func (g *groupSpec) mayHave(o batchSpec) bool { return !g.fixed || g.contains(o) }

// toRead returns the spec of the next step, given what the members need. Columns that no member
// takes any more stay in the spec for some steps.
func (g *groupSpec) toRead(need batchSpec) batchSpec {
	switch {
	case !g.columns.contains(need.columns):
		g.spare = 0
	case need.columns.contains(g.columns): // the same columns, perhaps in another order
		g.spare, need.columns = 0, g.columns
	case g.spare < unneededSteps:
		g.spare++
		need.columns = g.columns
	}
	return need
}

// formDecision holds the form of a group's batches, once the form is decided. In some groups, the
// first batch decides the form.
type formDecision struct {
	form    stream.Form
	decides bool
	origin  stream.StepPlace // where the group began
	first   batchSpec        // the spec of the group's first batch
}

// stepWindow holds the last steps of a group.
type stepWindow struct {
	tail   stream.StepPlace // the place before the first step of the window
	window []*block         // the steps, without the end of the stream
	bytes  int64            // the memory of the window's blocks
	end    *block           // the end of the stream, after the window; nil: not reached
	// gathers is set while the group keeps all steps since its origin, up to Sharer.gatherable
	// bytes. It keeps them for streams that start a little later than the group's first member, or
	// that fall behind another group soon after the first member did.
	gathers bool
}

// front returns the place after the group's last step.
func (g *readerGroup) front() stream.StepPlace {
	if len(g.window) == 0 {
		return g.tail
	}
	return g.window[len(g.window)-1].After()
}

// find returns the index in the window of the step that contains the rows after a place. The index
// len(window) means that the place is the group's front. find returns false if the place is outside
// of the window, or not a place in the sequence of the group's rows.
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

// serves reports whether the group has the member's next step, or can read it as the group's next
// step.
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

// fits reports whether one reader's steps can contain the batches of a member and of the group's
// members. If coming is set, they must also contain the batches of the streams that are coming.
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

// admits reports whether a member may join or approach the group. If the member, or a member of the
// group, stays apart, it shares only with streams that need the same columns and batch sizes.
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
			need.columns = need.columns.with(m.spec.columns) // members of one group have no different columns of the same name
		}
	}
	if need.columns == nil {
		return g.spec.batchSpec
	}
	g.spec.needs = need.columns
	return need
}

// next returns the spec and the form with which the group reads its next step. The spec contains
// what the group's members need, and what those coming streams need that have a step beginning
// there.
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

// specs returns the specs of the members, and then the specs of the coming streams.
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
