package fanout

import (
	"context"

	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/loader/stream"
)

const (
	// maxGroups bounds the groups of one key: each is looked at when a stream looks for a group.
	maxGroups = 64
	// gatherDivisor divides the bytes of all windows into what one stream alone may gather at its
	// start. To keep batches costs CPU time: each takes memory that no cache has.
	gatherDivisor = 4
	// maxSteps bounds the steps of a window, whose counts take memory besides the batches.
	maxSteps = 1024
)

// readerGroup is the members that take the steps of one reader, and the window of its last
// steps.
type readerGroup struct {
	sharer *Sharer
	key    string
	age    int64
	ctx    context.Context //nolint:containedctx // of the reader: it ends with the last member
	cancel context.CancelFunc

	// form is the form of the batches, once it is decided. A group that decides it (decides)
	// does so by the first batch after origin.
	form    stream.Form
	formed  bool
	decides bool
	origin  stream.StepPlace // where it began

	tail   stream.StepPlace // before the window
	window []*stream.Step   // without the end
	bytes  int64            // of the window
	end    *stream.Step     // at the front; nil: not reached
	// gathers is set while the group keeps all steps since a stream's start, for streams that
	// start a little later, up to a part of the bytes of all windows (gatherDivisor).
	gathers bool

	members map[*groupMember]struct{}
	reader  *stream.ShardReader // used by the member that pulls; nil before the first pull and after a failure
	pulling bool
	pulled  chan struct{}             // closed at the end of the pull
	waiting map[*groupMember]struct{} // for it
}

// front returns the place after the last step.
func (g *readerGroup) front() stream.StepPlace { return g.placeBefore(len(g.window)) }

// placeBefore returns the place before a step of the window.
func (g *readerGroup) placeBefore(index int) stream.StepPlace {
	if index == 0 {
		return g.tail
	}
	return g.window[index-1].After()
}

// index returns the index in the window of the step after a place; len(window) is the front. It
// is outside of the window if the place is.
func (g *readerGroup) index(at stream.StepPlace) int { return int(at.Step() - g.tail.Step()) }

// serves reports whether the group has, or reads next, the step after a place.
func (g *readerGroup) serves(at stream.StepPlace) bool {
	i := g.index(at)
	return i >= 0 && i <= len(g.window) && g.placeBefore(i).Equal(at)
}

// drop removes the first steps of the window.
func (g *readerGroup) drop(steps int, to *trash) {
	for _, step := range g.window[:steps] {
		g.bytes -= bytesOf(step)
		g.sharer.bytes -= bytesOf(step)
		to.batches = append(to.batches, step.Batch)
	}
	if steps > 0 {
		g.tail = g.window[steps-1].After()
		g.gathers = false
	}
	clear(g.window[:steps])
	g.window = g.window[steps:]
}

// chargedBatch is a batch with a known amount of memory, whose charge can be shared. Batches of
// the lane are *batch.Charged.
type chargedBatch interface {
	Bytes() int64
	Share()
}

// bytesOf returns the memory of a step's batch.
func bytesOf(step *stream.Step) int64 {
	if c, ok := step.Batch.(chargedBatch); ok {
		return c.Bytes()
	}
	return 0
}

// publish prepares a batch for use by several goroutines: it computes what Arrow otherwise
// computes on first use, and makes its memory count against no host's share.
func publish(step *stream.Step) {
	if step.Batch == nil {
		return
	}
	batch.CountNulls(step.Batch)
	if c, ok := step.Batch.(chargedBatch); ok {
		c.Share()
	}
}
