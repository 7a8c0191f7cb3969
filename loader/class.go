package loader

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/joiner"
	"github.com/penstock/penstock/joiner/spill"
	"github.com/penstock/penstock/loader/plan"
)

// class is the staging side of one class of files, as one stream uses it. The
// side itself is the loader's, shared with other streams: it is read and
// indexed once, when the first row asks or before.
type class struct {
	number   int
	level    *level
	splits   *splits
	source   plan.Source
	memory   int64 // that its side is expected to take
	division *division
	shared   *side
	grips    int
	gaveWay  bool // the stream has built it in memory: if it is to be built again, it had to give way
}

// grip is a lane's hold on a class, for one piece.
type grip struct {
	class   *class
	at      plan.Piece
	pending *pending      // the side is being built ahead; nil if not
	shared  *side         // of the piece's bucket, where the class was divided; nil if not
	sliced  *spill.Sliced // what the piece is joined with, if that is sliced; the loader's sides keep it
	spilled int64         // bytes that it had written when the grip got it
}

// pending is a side that is being built ahead.
type pending struct {
	cancel context.CancelFunc
	done   chan struct{}
}

// holds says whether some lane holds a class.
func (l *level) holds(number int) bool {
	c := l.classes[number]
	return c != nil && c.grips > 0
}

// hold takes the class that a piece needs.
func (l *level) hold(s *splits, at plan.Piece) *grip {
	number := s.plan.Splits[at.Split].Classes[l.staging]
	c := l.classes[number]
	if c == nil {
		c = &class{
			number: number, level: l, splits: s, source: s.plan.Class(l.staging, number),
			memory: s.plan.Staging[l.staging].Class(number).Memory(), division: l.divided[number],
		}
		c.shared = s.sides.enter(c.key())
		l.classes[number] = c
	}
	c.grips++
	if c.grips == 1 {
		s.sides.acquire(c.shared)
	}
	return &grip{class: c, at: at}
}

// drop gives a grip up. A class that no lane holds stays known while a piece to
// come needs it, so that its side may stay where memory is plentiful.
func (g *grip) drop() {
	g.settle(true)
	c := g.class
	if g.sliced != nil {
		c.level.met.spill(g.sliced.Spilled() - g.spilled)
	}
	if g.shared != nil {
		c.splits.sides.release(g.shared)
		c.splits.sides.leave(g.shared)
	}
	c.grips--
	if c.grips > 0 {
		return
	}
	c.splits.sides.release(c.shared)
	if c.level.left[c.number] == 0 {
		c.forget()
	}
}

func drop(grips []*grip) {
	for _, g := range grips {
		g.drop()
	}
}

// forget ends the stream's interest in the class.
func (c *class) forget() {
	delete(c.level.classes, c.number)
	c.splits.sides.leave(c.shared)
}

// close forgets the classes that the stream would have needed again.
func (l *level) close() {
	for _, c := range l.classes {
		c.forget()
	}
}

// prepare begins to build the side.
func (g *grip) prepare(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	p := &pending{cancel: cancel, done: make(chan struct{})}
	g.pending = p
	go func() {
		defer close(p.done)
		if side, err := g.get(budget.Hurry(ctx)); err == nil { // what fails here is tried again when a row asks
			side.Release()
		}
	}()
}

// settle waits for the side that is being built ahead, or ends that.
func (g *grip) settle(end bool) {
	if g.pending == nil {
		return
	}
	if end {
		g.pending.cancel()
	}
	<-g.pending.done
	g.pending.cancel()
	g.pending = nil
}

// side returns the class's staging side with a reference of the caller's. A
// side that could not be built ahead is tried again: the memory that it lacked
// may be free now. What is built ahead beside it gives way.
func (g *grip) side(ctx context.Context) (joiner.Probeable, error) {
	g.settle(false)
	made, err := g.get(ctx)
	if fault.KindOf(err) == fault.Exhausted && g.class.splits.giveWay() {
		return g.get(ctx)
	}
	return made, err
}

func (g *grip) get(ctx context.Context) (joiner.Probeable, error) {
	made, err := g.class.shared.get(ctx, g.class.build)
	if parts, ok := made.(*spill.Parts); ok {
		made, err = g.part(ctx, parts)
		parts.Release() // the class keeps them
	}
	if err != nil {
		return nil, err
	}
	return g.joinable(made), nil
}

// joinable is what was made, as the join of the grip's piece asks it.
func (g *grip) joinable(made counted) joiner.Probeable {
	met := &g.class.level.met
	if s, ok := made.(*spill.Sliced); ok {
		defer s.Release()
		if g.sliced == nil {
			g.sliced, g.spilled = s, s.Spilled()
		}
		met.ran("slices on disk")
		return s.ProbedBy(g.again())
	}
	s := made.(*joiner.BuildSide)
	if len(g.class.source.Files) > 0 {
		met.ran(s.Strategy())
	}
	return s
}

// input is the class's rows as a stream that is opened when it is needed.
func (c *class) input() joiner.Input {
	var rows Rows
	return joiner.Input{
		Open: func(ctx context.Context) (array.RecordReader, error) {
			var err error
			rows, err = c.splits.options.scan(ctx, c.source, c.level.read)
			return rows, err
		},
		Key:     c.level.positions(),
		Columns: c.level.kept(),
		File:    func(row int64) string { return rows.FileOf(row) },
	}
}

// key names all that the class's side is made of.
func (c *class) key() string {
	var text strings.Builder
	text.WriteString(c.level.text)
	if d := c.division; c.divisible() { // streams that would divide otherwise share nothing
		fmt.Fprintf(&text, "key %d in %d buckets\n", d.key, d.of)
	}
	for _, f := range c.source.Files {
		fmt.Fprintf(&text, "%q %d %d\n", f.File.Location, f.From, f.To)
	}
	sum := sha256.Sum256([]byte(text.String()))
	return hex.EncodeToString(sum[:])
}

// describe names all that the sides of a level are made of, beside their
// files: table, columns, filter, recipe.
func (l *level) describe() string {
	var text strings.Builder
	pin := l.bound.Pinned.Pin
	fmt.Fprintf(&text, "%q %s %d %d\n", l.bound.Pinned.Name, pin.UUID, pin.Snapshot, pin.Schema)
	if l.bound.Rows != nil {
		fmt.Fprintf(&text, "filter %q\n", l.bound.Rows)
	}
	for _, k := range l.bound.Keys {
		fmt.Fprintf(&text, "key %d\n", k.Staging.ID)
	}
	for _, c := range l.read {
		fmt.Fprintf(&text, "column %d %v\n", c.field.ID, c.shapes)
	}
	for i, c := range l.shown {
		fmt.Fprintf(&text, "shown %d %v\n", c.at, l.recipe.Defaults[i])
	}
	fmt.Fprintf(&text, "name %q matched %q order %v strategy %d %q\n",
		l.recipe.Name, l.recipe.Matched, l.recipe.OrderBy, l.recipe.Strategy, l.bound.Custom)
	if l.recipe.Time != nil {
		fmt.Fprintf(&text, "time %d\n", *l.recipe.Time)
	}
	return text.String()
}
