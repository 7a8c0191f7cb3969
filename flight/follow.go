package flight

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/apache/arrow-go/v18/arrow"
	arrowflight "github.com/apache/arrow-go/v18/arrow/flight"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/penstock/penstock/flight/call"
	"github.com/penstock/penstock/flight/frames"
	"github.com/penstock/penstock/internal/jsontext"
	"github.com/penstock/penstock/loader/dataset"
)

const (
	// headerFollow is the header of a DoGet that says how its client calls the stream when it follows it: "<name> <number>". If
	// the stream can be followed, the answer has the same header.
	headerFollow = "penstock-follow"
	// maxFollowName is the length of the longest name of a headerFollow.
	maxFollowName = 64
	// maxFollowTicket is the length of the longest ticket that asks to follow streams. Longer ones are not parsed.
	maxFollowTicket = 1 << 10
	// followBytes is the memory of a call that follows streams: its goroutine, its buffers, and what gRPC holds for it.
	followBytes = 16 << 10
)

// notice is sent to a client that follows its streams: where one of them moves, while batches before that point are still on their way.
type notice struct {
	Stream int64 `json:"stream"` // its number in headerFollow
	moved
}

// followKey identifies the streams that one call follows: those of a subject that have the same name.
type followKey struct{ subject, name string }

// followed is a stream that its client may follow.
type followed struct {
	key    followKey
	number int64
}

// followedOf returns how a client follows the stream of a DoGet. It returns false if the client does not.
func followedOf(ctx context.Context, c *call.Call) (followed, bool) {
	values := metadata.ValueFromIncomingContext(ctx, headerFollow)
	if len(values) != 1 || !mayMove(ctx) {
		return followed{}, false
	}
	name, digits, _ := strings.Cut(values[0], " ")
	number, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || name == "" || len(name) > maxFollowName {
		return followed{}, false
	}
	return followed{followKey{c.Caller.Subject, name}, number}, true
}

// followers holds the streams that clients may follow. At most one call follows the streams of a key, so there are no more of these
// calls than streams. It is safe for concurrent use.
type followers struct {
	mu  sync.Mutex
	all map[followKey]*following
}

// following is the streams of a followKey; never empty while it is in followers. It is guarded by the mutex of followers.
type following struct {
	streams  map[*runningStream]int64 // by stream, its number
	over     []notice                 // of streams that have moved; their batches may still be on their way
	changed  chan struct{}            // closed and replaced when a stream ends, or when it becomes known where one moves
	replaced chan struct{}            // of the last call that followed the streams: closed when another one does; nil: there was none
}

// enter adds a stream, if its client may follow it, until leave is called. The answer to the client says that it may.
func (f *followers) enter(call *call.Call, to grpc.ServerStream, one *runningStream) (leave func(moves bool)) {
	of, follows := followedOf(to.Context(), call)
	if !follows {
		return func(bool) {}
	}
	_ = to.SetHeader(metadata.Pairs(headerFollow, metadata.ValueFromIncomingContext(to.Context(), headerFollow)[0])) // this fails only if the call has ended
	f.mu.Lock()
	defer f.mu.Unlock()
	all := f.all[of.key]
	if all == nil {
		all = &following{streams: map[*runningStream]int64{}, changed: make(chan struct{})}
		f.all[of.key] = all
	}
	all.streams[one] = of.number
	one.ending.tell = func() { f.change(all, func() {}) }
	return func(moves bool) {
		f.change(all, func() {
			if at, known := one.ending.known(); moves && known {
				all.over = append(all.over, notice{of.number, at})
			}
			delete(all.streams, one)
			if len(all.streams) == 0 {
				delete(f.all, of.key)
			}
		})
	}
}

// change changes the streams that a client follows, and wakes the calls that follow them.
func (f *followers) change(of *following, change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
	close(of.changed)
	of.changed = make(chan struct{})
}

// follow returns the streams of a key for a call that follows them, and a channel that is closed when another call does. It ends the
// call that followed them before. If there are no streams, it returns nil.
func (f *followers) follow(key followKey) (of *following, replaced <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if of = f.all[key]; of == nil {
		return nil, nil
	}
	if of.replaced != nil {
		close(of.replaced)
	}
	of.replaced = make(chan struct{})
	return of, of.replaced
}

// notices returns the notices about streams that move, except those in told, to which it adds them. It reports whether there can be
// more, and returns a channel that is closed when there are.
func (f *followers) notices(of *following, stops bool, told map[int64]bool) (found []notice, more bool, changed <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	all := slices.Clone(of.over)
	for one, number := range of.streams {
		known, at := false, moved{}
		if stops { // otherwise, the text of the cursor is not needed
			at, known = one.ending.known()
		}
		if known {
			all = append(all, notice{number, at})
		} else {
			more = true
		}
	}
	for _, one := range all {
		if !told[one.Stream] {
			told[one.Stream] = true
			found = append(found, one)
		}
	}
	slices.SortFunc(found, func(a, b notice) int { return cmp.Compare(a.Stream, b.Stream) })
	return found, more, of.changed
}

// followOf returns the name in a ticket that asks to follow streams.
func followOf(ticket []byte) (name string, follows bool) {
	var asked struct {
		Follow string `json:"follow"`
	}
	if len(ticket) > maxFollowTicket || json.Unmarshal(ticket, &asked) != nil {
		return "", false
	}
	return asked.Follow, asked.Follow != ""
}

// follow answers a DoGet that follows streams: with the schema of no columns, and with a notice for each stream, once the server stops
// and it is known where the stream moves. It ends when the streams have ended or moved, or when another call follows them.
func (s *service) follow(c *call.Call, name string, to arrowflight.FlightService_DoGetServer) error {
	c.Note.Follows()
	held, err := s.options.Budget.Reserve("a call that follows streams", followBytes)
	if err != nil {
		return err
	}
	defer held.Release()
	ctx, leave := s.untilEnd(to.Context())
	defer leave()
	encoder := frames.NewEncoder(arrow.NewSchema(nil, nil))
	defer encoder.Close() //nolint:errcheck // it writes nothing
	first, err := encoder.First()
	if err != nil {
		return err
	}
	if err := to.SendMsg(first); err != nil {
		return err
	}
	of, replaced := s.followers.follow(followKey{c.Caller.Subject, name})
	if of == nil {
		return nil
	}
	for draining, told := s.draining, map[int64]bool{}; ; {
		found, more, changed := s.followers.notices(of, s.isDraining(), told)
		for _, one := range found {
			text := jsontext.Of(struct {
				Moves notice `json:"moves"`
			}{one})
			if err := to.Send(&arrowflight.FlightData{AppMetadata: text}); err != nil {
				return err
			}
		}
		if !more {
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-replaced:
			return nil
		case <-draining:
			draining = nil
		case <-changed:
		}
	}
}

// ending is the position where a stream moves if its server stops now: after the batch that it sends, or after the one that it reads.
// The goroutine of the stream changes it, and others read it.
type ending struct {
	tell func() // is called when the position becomes known while the server stops

	mu      sync.Mutex
	reads   bool // the stream reads a batch, so the position is not known yet
	batches int64
	cursor  dataset.Cursor
}

// read notes that the stream reads its next batch, unless the server stops. The stream looks whether the server stops
// afterwards, not before. Otherwise, a stream could read on after the client was notified that it moves.
func (e *ending) read() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.reads = true
}

// ends notes that the stream has read or sent this many batches, and reads no other one if the server stops now.
func (e *ending) ends(batches int64, cursor dataset.Cursor) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.reads, e.batches, e.cursor = false, batches, cursor
}

// known returns where the stream moves, and false if this is not known yet. Without a batch, nothing is known.
func (e *ending) known() (moved, bool) {
	e.mu.Lock()
	batches, cursor, reads := e.batches, e.cursor, e.reads
	e.mu.Unlock()
	if reads || batches == 0 {
		return moved{}, false
	}
	return moved{batches, cursor.Text(&dataset.PlanText{})}, true
}
