package admission

import (
	"context"
	"strconv"
	"strings"

	"google.golang.org/grpc/metadata"

	"github.com/penstock/penstock/internal/fault"
)

const (
	// HeaderMix is the header of a DoGet that names the mix that its stream belongs to, and the
	// number of streams of the mix: "<id> <streams>".
	HeaderMix = "penstock-mix"
	// maxMixID is the length of the longest id of a mix.
	maxMixID = 64
	// maxMixStreams is the largest number of streams of a mix. It bounds the slots that one mix can
	// reserve, or can keep others waiting for.
	maxMixStreams = 64
)

// Mix is the mix that a DoGet names; zero if it names none.
type Mix struct {
	ID      string
	Streams int
}

// MixOf returns the mix that the header of a DoGet names.
func MixOf(ctx context.Context) (Mix, error) {
	values := metadata.ValueFromIncomingContext(ctx, HeaderMix)
	if len(values) == 0 {
		return Mix{}, nil
	}
	id, streams, _ := strings.Cut(values[0], " ")
	n, err := strconv.Atoi(streams)
	if err != nil || len(values) > 1 || id == "" || len(id) > maxMixID || n < 1 || n > maxMixStreams {
		return Mix{}, fault.New(fault.Invalid, "the header %s must be an id of at most %d bytes, a space, and a number of streams up to %d", HeaderMix, maxMixID, maxMixStreams).
			WithRemedy("leave it out, or send it as the Python package does")
	}
	return Mix{id, n}, nil
}

// mixKey identifies a mix. The host is part of the key, so that no host can take the slots of
// another.
type mixKey struct{ host, id string }

// needs returns how many slots must be free for a stream: those of all streams of its mix, if it
// is the first one. The lock is held.
func (a *Slots) needs(p *Slot) int {
	if p.Claim.Firm || p.streams <= 1 || a.mixes[p.mix] != nil {
		return 1
	}
	return p.streams
}

// newMix reserves slots for the other streams of a mix whose first stream has just got a slot. A
// rank of a trainer reads the streams of a mix in turn: it waits for all of them, and other ranks
// wait for the rank. If two ranks had slots for only some of their streams each, they would wait
// for each other. The lock is held.
func (a *Slots) newMix(p *Slot) {
	p.mixed = &group{of: p.streams, streams: map[*Slot]struct{}{p: {}}, kept: a.Keep(p.streams-1, &p.Claim, gathering)}
	a.mixes[p.mix] = p.mixed
}

// neverFits returns the error of a stream whose mix has more streams than its host may have.
func (p *Slot) neverFits(share int) error {
	return fault.New(fault.Exhausted, "the mix has %d streams, and one client may have %d open (max_streams, max_peer_share)", p.streams, share).
		WithRemedy("raise the limit, or mix fewer datasets")
}
