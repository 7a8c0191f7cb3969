package deletes

import (
	"context"
	"sync/atomic"

	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/penstock/penstock/cache"
	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/digest"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/invariant"
	"github.com/penstock/penstock/internal/release"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/plan"
)

// Options configure a Pool.
type Options struct {
	// Files opens the files of deletion vectors.
	Files catalog.Opener
	// Read reads columns of Parquet delete files. It fails for a file that lacks one of the
	// columns.
	Read func(ctx context.Context, source plan.Source, columns []catalog.Field) (array.RecordReader, error)
	// Budget is charged for the loaded deletes; nil is unlimited.
	Budget *budget.Budget
}

// Pool holds the loaded deletes of all streams of a process. It is safe for concurrent use.
type Pool struct {
	options Options
	shared  *cache.Shared[*loaded]
	retries chan struct{} // a mutex: full while a goroutine retries a load
}

// New makes a Pool, whose unused deletes are evicted under pressure on its budget.
func New(o Options) *Pool {
	return &Pool{options: o, shared: cache.NewShared[*loaded](o.Budget), retries: make(chan struct{}, 1)}
}

// loaded is the content of a delete file (positions) or of a group of equality deletes
// (values). The last Release frees it.
type loaded struct {
	positions positions
	values    *values
	held      *budget.Reservation
	size      int64
	refs      atomic.Int64
}

func newLoaded(held *budget.Reservation) *loaded {
	l := &loaded{held: held, size: max(1, held.Held())}
	l.refs.Store(1)
	return l
}

// Retain adds a reference.
func (l *loaded) Retain() { l.refs.Add(1) }

// Release drops a reference.
func (l *loaded) Release() {
	left := l.refs.Add(-1)
	invariant.Check(left >= 0, "more Releases of deletes than references")
	if left == 0 {
		l.positions, l.values = nil, nil
		l.held.Release()
	}
}

// Size returns the memory that the deletes take.
func (l *loaded) Size() cache.Size { return cache.Size{Memory: l.size} }

// identity has everything that the loaded deletes depend on.
type identity struct {
	table   string // uuid
	kind    catalog.DeleteKind
	columns []columnOf
	files   []fileOf
}

type columnOf struct {
	id   int
	kind string
}

type fileOf struct {
	location         string
	data             string // for a vector: the data file, since manifest entries of several data files may name the same blob
	offset, sequence int64
}

func keyOf(t *catalog.Table, kind catalog.DeleteKind, columns []catalog.Field, files []*catalog.DeleteFile) string {
	of := identity{table: t.Pin.UUID, kind: kind}
	for _, c := range columns {
		of.columns = append(of.columns, columnOf{id: c.ID, kind: c.Type.String()})
	}
	for _, f := range files {
		of.files = append(of.files, fileOf{location: f.Location, data: f.Data, offset: f.Offset, sequence: f.Sequence})
	}
	return digest.Of(of)
}

// unit is what one load reads: a delete file, or a group of equality deletes.
type unit struct {
	file  *catalog.DeleteFile
	group *catalog.EqualityGroup
}

func (u unit) key(t *catalog.Table) string {
	if u.group != nil {
		return keyOf(t, catalog.EqualityDeletes, u.group.Columns, u.group.Files)
	}
	return keyOf(t, u.file.Kind, nil, []*catalog.DeleteFile{u.file})
}

// units returns the units that apply to a data file.
func units(d catalog.Deletes) []unit {
	var out []unit
	if d.Vector != nil {
		out = append(out, unit{file: d.Vector})
	}
	for _, f := range d.Positions {
		out = append(out, unit{file: f})
	}
	for _, g := range d.Equality {
		out = append(out, unit{group: g})
	}
	return out
}

// Keep keeps the deletes of some files of a table until the Handle is released: deletes that were
// loaded stay loaded between uses, unless memory is short.
func (p *Pool) Keep(t *catalog.Table, files []catalog.File) *release.Handle {
	seen, lists := map[unit]bool{}, map[catalog.DeleteList]bool{}
	var needs []*cache.Need[*loaded]
	for i := range files {
		d := files[i].Deletes
		if at := catalog.ListOf(d.Positions); lists[at] {
			d.Positions = nil
		} else {
			lists[at] = true
		}
		for _, u := range units(d) {
			if !seen[u] {
				seen[u] = true
				needs = append(needs, p.shared.Need(u.key(t)))
			}
		}
	}
	return release.New(func() {
		for _, n := range needs {
			n.Close()
		}
	})
}

// Open returns the deleted rows of a data file. It loads the deletes that are not loaded yet. The
// caller releases the result.
func (p *Pool) Open(ctx context.Context, t *catalog.Table, f catalog.File) (*Rows, error) {
	rows := &Rows{file: f}
	for _, u := range units(f.Deletes) {
		need := p.shared.Need(u.key(t))
		rows.needs, rows.pins = append(rows.needs, need), append(rows.pins, need.Pin())
		got, err := p.get(ctx, t, need, u)
		if err != nil {
			rows.Release()
			return nil, err
		}
		rows.loaded = append(rows.loaded, got)
		if err := rows.add(u, got); err != nil {
			rows.Release()
			return nil, err
		}
	}
	return rows, nil
}

// The first retry of a load waits for at least 1/firstDivisor of the budget: the memory that a load
// needs is not known in advance, and the reads of a failed attempt are wasted.
const firstDivisor = 8

// get returns the loaded deletes of a unit. A load does not wait for memory, since a stream that
// waits for the load may hold that memory. Instead, a load that lacks memory fails and releases
// what it has reserved; its caller then waits for memory and retries. Only one caller retries at a
// time, since several loads that fill the budget together would all fail. Each retry waits for
// twice as much memory as the previous one, up to the whole budget. The retry after a wait for the
// whole budget, or after a wait that fails as Exhausted, is the last one.
func (p *Pool) get(ctx context.Context, t *catalog.Table, need *cache.Need[*loaded], u unit) (*loaded, error) {
	load := func() (*loaded, error) {
		return need.GetUnmarked(ctx, func(ctx context.Context) (*loaded, error) { return p.load(ctx, t, u) })
	}
	got, err := load()
	if fault.KindOf(err) != fault.Exhausted || p.options.Budget == nil {
		return got, err
	}
	waiting := budget.MarkBlocked(ctx)
	select {
	case p.retries <- struct{}{}:
		waiting.Release()
		defer func() { <-p.retries }()
	case <-ctx.Done():
		waiting.Release()
		return nil, context.Cause(ctx)
	}
	limit := p.options.Budget.Limit()
	for n := max(1, u.estimate(), limit/firstDivisor); ; n *= 2 {
		n = min(n, limit)
		none := p.options.Budget.Await(ctx, "deletes of table "+t.Name, n)
		if fault.KindOf(none) != fault.Exhausted && none != nil {
			return nil, none
		}
		got, err = load()
		if fault.KindOf(err) != fault.Exhausted || none != nil || n == limit {
			return got, err
		}
	}
}

// estimate returns a guess of the memory that a load takes, in bytes.
func (u unit) estimate() int64 {
	n := int64(0)
	if u.group != nil {
		for _, f := range u.group.Files {
			n += (bytesOfValue + 16*int64(len(u.group.Columns))) * f.Rows
		}
		return n
	}
	switch u.file.Kind {
	case catalog.DeletionVector:
		return (1 + perBlobBytes) * u.file.Length
	case catalog.PositionDeletes:
		return 2 * bytesOfPosition * u.file.Rows
	case catalog.EqualityDeletes:
	}
	return 0
}

func (p *Pool) load(ctx context.Context, t *catalog.Table, u unit) (*loaded, error) {
	if u.group != nil {
		return p.loadValues(ctx, t, u.group)
	}
	switch u.file.Kind {
	case catalog.DeletionVector:
		return p.loadVector(ctx, t, u.file)
	case catalog.PositionDeletes:
		return p.loadPositions(ctx, t, u.file)
	case catalog.EqualityDeletes:
	}
	return nil, fault.New(fault.Internal, "equality deletes %s were loaded without their group", u.file.Location)
}
