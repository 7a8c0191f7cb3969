package flight

import (
	"context"
	"strconv"
	"strings"

	"google.golang.org/grpc/metadata"

	"github.com/penstock/penstock/flight/limits"
	"github.com/penstock/penstock/internal/fault"
)

const (
	// headerMix is the header of a DoGet that names the mix that its stream belongs to, and how
	// many streams this has: "<id> <streams>".
	headerMix = "penstock-mix"
	// maxMixID is the length of the longest id of a mix.
	maxMixID = 64
	// maxMixStreams is the largest number of streams of a mix. It bounds the slots that one mix can
	// keep, or have others wait for.
	maxMixStreams = 64
)

// mixHeader is the mix that a DoGet names; zero if it names none.
type mixHeader struct {
	id      string
	streams int
}

// mixOf returns the mix that the header of a DoGet names.
func mixOf(ctx context.Context) (mixHeader, error) {
	values := metadata.ValueFromIncomingContext(ctx, headerMix)
	if len(values) == 0 {
		return mixHeader{}, nil
	}
	id, streams, _ := strings.Cut(values[0], " ")
	n, err := strconv.Atoi(streams)
	if err != nil || len(values) > 1 || id == "" || len(id) > maxMixID || n < 1 || n > maxMixStreams {
		return mixHeader{}, fault.New(fault.Invalid, "the header %s must be an id of at most %d bytes, a space, and a number of streams up to %d", headerMix, maxMixID, maxMixStreams).
			WithRemedy("leave it out, or send it as the Python package does")
	}
	return mixHeader{id, n}, nil
}

// mixKey identifies a mix. Its host is part of it, so that no host takes the slots of another.
type mixKey struct{ host, id string }

// mixSlots are the slots of a mix: the streams of several datasets that one trainer rank reads
// in turn. The rank waits for all of them, and other ranks wait for it. If each of two ranks had
// the slots of some of its streams, they would wait for each other. So the first stream that is
// admitted keeps slots for all others, for as long as they may take to come.
type mixSlots struct {
	of      int          // streams of the mix
	streams int          // that have slots; never zero
	kept    *limits.Kept // for streams that have not come, of the share of their host
}

// needs returns how many slots must be free for a stream: those of all streams of its mix, if it
// is the first one. The lock is held.
func (a *admission) needs(p *slot) int {
	if p.claim.Firm || p.streams <= 1 || a.mixes[p.mix] != nil {
		return 1
	}
	return p.streams
}

// isLate reports whether the mix was admitted without its next stream: that came late, or follows one that
// has ended. The lock is held.
func (m *mixSlots) isLate() bool { return m.streams+m.kept.Places() < m.of }

// newMix keeps slots for the other streams of a mix, whose first stream has just got one. The lock is
// held.
func (a *admission) newMix(p *slot) {
	m := &mixSlots{of: p.streams, streams: 1, kept: a.KeepFor(p.claim.Client, p.streams-1, gathering)}
	a.mixes[p.mix], p.mixed = m, m
}

// leaveMix takes a stream out of its mix, which ends with its last one. The lock is held.
func (a *admission) leaveMix(key mixKey, m *mixSlots) {
	if m.streams--; m.streams == 0 {
		m.kept.Release()
		delete(a.mixes, key)
	}
}

// neverFits returns the error of a stream whose mix has more streams than its host may have.
func (p *slot) neverFits(share int) error {
	return fault.New(fault.Exhausted, "the mix has %d streams, and one client may have %d open (max_streams, max_peer_share)", p.streams, share).
		WithRemedy("raise the limit, or mix fewer datasets")
}
