package fanout

import (
	"context"
	"log/slog"
	"maps"
	"sync"
	"time"

	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/loader"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/stream"
)

// ReaderOpener plans and opens the readers of groups and members; *loader.Loader is one.
type ReaderOpener interface {
	Plan(ctx context.Context, q dataset.Query) (loader.Planned, error)
	OpenReader(ctx context.Context, p loader.Planned, o loader.StreamOptions) (*stream.ShardReader, error)
}

// Options configures a Sharer.
type Options struct {
	Window int64            // the maximum bytes of all windows together; 0: windows stay empty
	Budget *budget.Budget   // empties the windows when it lacks room; nil: unlimited
	Clock  func() time.Time // nil: all streams count as fast
}

// Sharer holds the groups of a server. It is safe for concurrent use.
type Sharer struct {
	options Options
	log     *slog.Logger

	mu      sync.Mutex
	groups  map[string][]*readerGroup // by key
	begun   int64                     // how many groups were begun so far; this is the age of the newest group
	members int
	streams map[*groupMember]struct{}
	bytes   int64 // of all windows
	shared  int64 // batches that members received without reading them
	views   int64 // batches that members received as views of other batches
	widened int64 // how many readers were opened again for more columns or larger batches
	alone   map[Reason]int64
}

// Reason is the reason why a stream reads alone, although other streams have the same key.
type Reason string

// The values of Reason.
const (
	Behind  Reason = "behind"  // it fell behind the window
	Parked  Reason = "parked"  // it was parked
	Limited Reason = "limit"   // it may reach its limit in the next step
	Skipped Reason = "skipped" // its group skipped a step that the stream returns
	Form    Reason = "form"    // wire: auto depends on its own first batch
	Crowded Reason = "crowded" // there are too many groups of its key
	Lacking Reason = "lacking" // its group reads fewer columns or other sizes, and cannot read more
	Failing Reason = "failing" // its group's reader failed, and reads more than the stream needs
)

// Reasons returns all values of Reason.
func Reasons() []Reason {
	return []Reason{Behind, Parked, Limited, Skipped, Form, Crowded, Lacking, Failing}
}

// New returns a Sharer without groups.
func New(o Options) *Sharer {
	s := &Sharer{options: o, log: slog.New(slog.DiscardHandler), groups: map[string][]*readerGroup{}, streams: map[*groupMember]struct{}{}, alone: make(map[Reason]int64)}
	o.Budget.OnLack(s.giveUp)
	return s
}

// now returns the time, or zero if there is no clock.
func (s *Sharer) now() time.Time {
	if s.options.Clock == nil {
		return time.Time{}
	}
	return s.options.Clock()
}

// LogTo sets the logger, to which the Sharer logs why streams leave their groups. It must be called
// before the Sharer is used.
func (s *Sharer) LogTo(log *slog.Logger) { s.log = log }

// SharingStats counts the current groups, their members and the bytes of their windows, and what
// was shared so far.
type SharingStats struct {
	Groups, Members int
	WindowBytes     int64
	Shared          int64            // batches that streams received without reading them
	Views           int64            // batches that streams received as views of batches with more columns or rows
	Widened         int64            // how often a group began to read more columns or larger batches
	Alone           map[Reason]int64 // how often a stream left its group to read alone
}

// Stats returns the statistics of sharing.
func (s *Sharer) Stats() SharingStats {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := SharingStats{Members: s.members, WindowBytes: s.bytes, Shared: s.shared, Views: s.views, Widened: s.widened, Alone: maps.Clone(s.alone)}
	for _, groups := range s.groups {
		out.Groups += len(groups)
	}
	return out
}

// giveUp empties all windows. The budget calls it when a reservation lacks room.
func (s *Sharer) giveUp(int64) {
	s.mu.Lock()
	var dropped trash
	for _, groups := range s.groups {
		for _, g := range groups {
			g.drop(len(g.window), &dropped)
		}
	}
	s.mu.Unlock()
	dropped.release()
}

// trash collects resources that are released after Sharer.mu is unlocked.
type trash struct {
	blocks  []*block
	taken   []*taken
	readers []*stream.StepReader
}

// release releases batches, and waits until readers have stopped.
func (t *trash) release() {
	for _, b := range t.blocks {
		b.Release()
	}
	for _, one := range t.taken {
		one.release()
	}
	for _, r := range t.readers {
		r.Release()
	}
}

// SharingLoader is a loader whose streams share batches.
type SharingLoader struct {
	*loader.Loader
	sharer *Sharer
}

// Over returns a SharingLoader that opens its readers with another loader.
func (s *Sharer) Over(l *loader.Loader) *SharingLoader { return &SharingLoader{Loader: l, sharer: s} }

// Open returns a stream with the same rows, cursors and report as the stream that
// loader.Loader.Open returns.
func (l *SharingLoader) Open(ctx context.Context, p loader.Planned, o loader.StreamOptions) (loader.Stream, error) {
	m, err := l.sharer.newMember(ctx, l.Loader, p, o)
	if err != nil {
		return nil, err
	}
	return m, nil
}
