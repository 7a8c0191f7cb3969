package loader

import (
	"context"

	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/penstock/penstock/joiner"
	"github.com/penstock/penstock/loader/plan"
)

// class is the staging side of one residue class, while some lane of the
// stream holds it. It is read and indexed once, when the first row asks or
// before.
type class struct {
	number  int
	level   *level
	source  plan.Source
	scan    Scan
	join    joiner.Options
	holds   int
	built   *joiner.Side
	pending *pending // the side that is being built, nil if none is
}

// pending is a side that is being built.
type pending struct {
	cancel context.CancelFunc
	done   chan struct{}
	side   *joiner.Side
	err    error
}

// hold returns a class with one more hold on it.
func (l *level) hold(s *splits, number int) *class {
	c := l.classes[number]
	if c == nil {
		c = &class{
			number: number, level: l, source: s.plan.Class(l.staging, number), scan: s.options.Scan,
			join: joiner.Options{Memory: s.options.Memory, Budget: s.options.Budget},
		}
		l.classes[number] = c
	}
	c.holds++
	return c
}

// drop gives one hold back; the last one frees the side.
func (c *class) drop() {
	c.holds--
	if c.holds > 0 {
		return
	}
	delete(c.level.classes, c.number)
	if c.pending != nil {
		c.pending.cancel()
		_ = c.settle() // nobody asked for the side
	}
	if c.built != nil {
		c.built.Release()
		c.built = nil
	}
}

func drop(classes []*class) {
	for _, c := range classes {
		c.drop()
	}
}

// prepare begins to build the side, unless that was done.
func (c *class) prepare(ctx context.Context) {
	if c.built != nil || c.pending != nil {
		return
	}
	ctx, cancel := context.WithCancel(ctx)
	p := &pending{cancel: cancel, done: make(chan struct{})}
	c.pending = p
	go func() {
		defer close(p.done)
		p.side, p.err = c.build(ctx)
	}()
}

// settle waits for the side that is being built.
func (c *class) settle() error {
	p := c.pending
	<-p.done
	p.cancel()
	c.pending, c.built = nil, p.side
	return p.err
}

// side returns the indexed rows of the class with a reference of the caller's.
// A side that could not be built ahead is tried again: the memory that it
// lacked may be free now.
func (c *class) side(ctx context.Context) (joiner.Joinable, error) {
	if c.pending != nil {
		_ = c.settle() // what fails twice is reported below
	}
	if c.built == nil {
		built, err := c.build(ctx)
		if err != nil {
			return nil, err
		}
		c.built = built
	}
	c.built.Retain()
	return c.built, nil
}

func (c *class) build(ctx context.Context) (*joiner.Side, error) {
	var rows Rows
	key := make([]int, len(c.level.key))
	for i := range key {
		key[i] = i
	}
	return joiner.Build(ctx, joiner.Input{
		Open: func(ctx context.Context) (array.RecordReader, error) {
			var err error
			rows, err = c.scan(ctx, c.source, c.level.read)
			return rows, err
		},
		Key:     key,
		Columns: c.level.kept,
		File:    func(row int64) string { return rows.FileOf(row) },
	}, joiner.Recipe{Name: c.level.rule.Name}, c.join)
}
