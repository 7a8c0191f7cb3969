package loader

import (
	"context"

	"github.com/apache/arrow-go/v18/arrow/array"
	"golang.org/x/sync/errgroup"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/release"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/plan"
	"github.com/penstock/penstock/loader/stream"
)

// Stream is what a trainer reads: batches, each with a cursor, and a report. The methods are
// documented at *stream.ShardReader.
type Stream interface {
	array.RecordReader
	Begin() error
	Progress
	Report() stream.Report
	Parkable
}

// Parkable has two methods that release everything that a stream holds except its position. Park is
// called between two steps, and SetBack after a step that has failed.
type Parkable interface {
	Park(pressed bool) bool
	SetBack() bool
}

// Progress describes the last batch returned.
type Progress interface {
	BatchRows() int64
	Cursor() dataset.Cursor
}

// StreamOptions is what a server adds to a planned query.
type StreamOptions struct {
	Counts *dataset.Counts // the counts that Count returned for the plan; nil: its rows were not counted
	Part   plan.Part       // the splits of the plan to read; zero: all of them
	Peer   string          // the client's host; the streams of one host share a part of the memory
	// Stepwise makes the stream keep separate counts for each step, see stream.Step.
	Stepwise bool
}

// spec describes the stream of a planned query.
func (p Planned) spec(o StreamOptions) stream.ReadSpec {
	return stream.ReadSpec{
		Plan: p.Plan, Reading: p.Query.Reading, Outputs: p.Outputs, BatchRows: p.BatchRows,
		Counts: o.Counts, Part: o.Part, Peer: o.Peer, Stepwise: o.Stepwise,
	}
}

// Open returns the stream of one shard of a plan. It holds the snapshots that the
// stream reads until the stream is released, and fails if one cannot be held. Nothing
// is read before the first Next. The caller releases the stream; canceling ctx ends it.
func (l *Loader) Open(ctx context.Context, p Planned, o StreamOptions) (Stream, error) {
	s, err := l.OpenReader(ctx, p, o)
	if err != nil {
		return nil, err
	}
	return s, nil
}

// OpenReader is like Open, for callers that need methods that Stream does not have.
func (l *Loader) OpenReader(ctx context.Context, p Planned, o StreamOptions) (*stream.ShardReader, error) {
	s, err := stream.New(ctx, l.streams, p.spec(o))
	if err != nil {
		return nil, err
	}
	paid, err := l.pay(ctx, p.Plan, o.Peer)
	s.Own(paid)
	if err == nil {
		var held *release.Handle
		held, err = l.hold(ctx, p.Plan, p.added)
		s.Own(held)
	}
	if err != nil {
		s.Release()
		return nil, err
	}
	s.Own(l.keep(p.Plan, o.Part))
	return s, nil
}

// keep keeps the deletes of the files of a part of the plan in memory, if there is room, so that
// not every range loads them again.
func (l *Loader) keep(p *plan.Plan, part plan.Part) *release.Handle {
	if l.options.Keep == nil {
		return nil
	}
	var training []catalog.File
	for _, split := range p.SplitsOf(part) {
		for _, f := range split.Files {
			training = append(training, f.File)
		}
	}
	kept := []*release.Handle{l.keepFiles(p.Relation.Training, training)}
	for i, s := range p.Staging {
		for _, g := range s.Groups {
			kept = append(kept, l.keepFiles(p.Relation.Staging[i].Pinned, g.Files))
		}
	}
	return release.All(kept...)
}

func (l *Loader) keepFiles(t *catalog.Table, files []catalog.File) *release.Handle {
	var deleted []catalog.File
	for _, f := range files {
		if !f.Deletes.None() {
			deleted = append(deleted, f)
		}
	}
	if deleted == nil {
		return nil
	}
	return l.options.Keep(t, deleted)
}

// freePlan is the size up to which a plan is not charged to the budget. Few plans are larger.
const freePlan = 256 << 10

// pay reserves the memory of a plan until the Handle is released. All streams of the plan share one
// reservation.
func (l *Loader) pay(ctx context.Context, p *plan.Plan, peer string) (*release.Handle, error) {
	bytes := planBytes(p)
	if bytes <= freePlan {
		return nil, nil //nolint:nilnil // a nil Handle holds nothing
	}
	ctx, entered := l.options.Budget.Enter(ctx, peer) // the stream may wait for memory
	defer entered.Release()
	return l.paid.Hold(ctx, p, bytes)
}

// hold keeps the snapshots of all tables of a plan from expiring until the Handle is released. If
// one snapshot cannot be held, hold releases the others and returns the error. Two kinds of tables
// are not held, because clients choose them and holding a snapshot writes to its catalog: the
// tables of a dataset that a client sent, and the tables of the last added entries, which the query
// contains.
func (l *Loader) hold(ctx context.Context, p *plan.Plan, added int) (*release.Handle, error) {
	if l.options.Hold == nil || p.Relation.Dataset.Name == "" {
		return nil, nil //nolint:nilnil // a nil Handle holds nothing
	}
	own := p.Relation.Staging[:len(p.Relation.Staging)-added]
	handles := make([]*release.Handle, 1+len(own))
	// If one table fails, the others continue: a canceled commit may leave a file that no catalog
	// refers to.
	var group errgroup.Group
	one := func(i int, t *catalog.Table) error {
		held, err := l.options.Hold(ctx, t)
		handles[i] = held
		return err
	}
	group.Go(func() error { return one(0, p.Relation.Training) })
	for i, s := range own {
		if s.Promoted != nil {
			continue // no stream reads it
		}
		group.Go(func() error { return fault.Op(one(1+i, s.Pinned), "staging table %s", s.Name) })
	}
	err := group.Wait()
	all := release.All(handles...)
	if err != nil {
		all.Release()
		return nil, err
	}
	return all, nil
}
