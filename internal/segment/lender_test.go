//go:build linux

package segment

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/budget"
)

// lend returns a loan of at least size bytes.
func lend(t *testing.T, p *Lender, size int) *Loan {
	t.Helper()
	l := p.Lend(size)
	require.NotNil(t, l)
	require.GreaterOrEqual(t, len(l.Memory()), size)
	require.LessOrEqual(t, len(l.Memory()), max(minSize, size+size/sizesPerPower+1))
	return l
}

// A returned segment is lent again, for any size that rounds to its own.
func TestSegmentsAreReused(t *testing.T) {
	b := budget.New(1 << 30)
	p := NewLender(b, 1<<30)
	l := lend(t, p, 1_000_000)
	l.Memory()[0] = 7
	l.Release()
	require.Equal(t, LenderStats{Free: 1 << 20}, p.Stats())
	again := lend(t, p, 990_000)
	require.Same(t, l.segment, again.segment)
	other := lend(t, p, 1_000_000)
	require.NotSame(t, l.segment, other.segment)
	require.Equal(t, LenderStats{Lent: 2 << 20}, p.Stats())
	again.Release()
	other.Release()
	p.Close()
	require.Zero(t, b.Used())
	require.Nil(t, p.Lend(1), "after Close")
}

// A segment that has several holders is free when all have released it. One that was discarded is
// closed then.
func TestLoansEndWithTheirLastHolder(t *testing.T) {
	b := budget.New(1 << 30)
	p := NewLender(b, 1<<30)
	l := lend(t, p, 1)
	l.Retain()
	l.Release()
	require.Equal(t, LenderStats{Lent: minSize}, p.Stats())
	l.Discard()
	require.Equal(t, LenderStats{Lent: minSize}, p.Stats())
	l.Release()
	require.Equal(t, LenderStats{}, p.Stats())
	require.Zero(t, b.Used())
	l = lend(t, p, 1)
	p.Close()
	require.Equal(t, LenderStats{Lent: minSize}, p.Stats(), "a loan outlives Close")
	l.Release()
	require.Equal(t, LenderStats{}, p.Stats())
	require.Zero(t, b.Used())
}

// The limit and the budget bound all segments, free ones too, which are closed for others.
func TestLendersAreBounded(t *testing.T) {
	b := budget.New(1 << 20)
	p := NewLender(b, 4*minSize)
	var loans []*Loan
	for range 4 {
		loans = append(loans, lend(t, p, minSize))
	}
	require.Nil(t, p.Lend(1))
	loans[0].Release()
	require.Nil(t, p.Lend(2*minSize))
	require.Equal(t, LenderStats{Lent: 3 * minSize}, p.Stats(), "the free one was closed for nothing")
	loans[1].Release()
	two := lend(t, p, 2*minSize)
	require.Equal(t, LenderStats{Lent: 4 * minSize}, p.Stats())
	for _, l := range append(loans[2:], two) {
		l.Release()
	}
	require.Equal(t, int64(4*minSize), b.Used())

	rest, err := b.Reserve("test", 1<<20-2*minSize)
	require.NoError(t, err)
	require.LessOrEqual(t, p.Stats().Free, int64(2*minSize), "free segments are closed for a reservation")
	require.Nil(t, p.Lend(4*minSize), "the budget has no room")
	require.Equal(t, LenderStats{}, p.Stats())
	rest.Release()
	p.Close()
	require.Zero(t, b.Used())
}

// The number of segments is bounded, since each is an open file.
func TestLendersOpenABoundedNumberOfFiles(t *testing.T) {
	p := NewLender(nil, 1<<40)
	var loans []*Loan
	for range maxSegments {
		loans = append(loans, lend(t, p, 1))
	}
	require.Nil(t, p.Lend(1))
	loans[0].Release()
	loans[0] = lend(t, p, 2*minSize)
	loans[1].Discard()
	loans[1].Release()
	loans[1] = lend(t, p, 1)
	require.Nil(t, p.Lend(1))
	for _, l := range loans {
		l.Release()
	}
	p.Close()
	require.Zero(t, p.count)
}

// Trim closes what was free since the previous one.
func TestUnusedSegmentsAreTrimmed(t *testing.T) {
	p := NewLender(nil, 1<<30)
	one, two := lend(t, p, 1), lend(t, p, 1)
	one.Release()
	two.Release()
	require.True(t, p.Trim())
	lend(t, p, 1).Release()
	require.True(t, p.Trim())
	require.Equal(t, LenderStats{Free: minSize}, p.Stats())
	require.False(t, p.Trim())
	require.Equal(t, LenderStats{}, p.Stats())
}

// No segment has two holders that do not share a loan.
func TestConcurrentLoansDoNotOverlap(t *testing.T) {
	b := budget.New(1 << 30)
	p := NewLender(b, 6*minSize)
	var group sync.WaitGroup
	for i := range 8 {
		group.Go(func() {
			for n := range 200 {
				l := p.Lend(1 + n%2*minSize)
				if l == nil {
					continue
				}
				memory := l.Memory()
				memory[0], memory[len(memory)-1] = byte(i), byte(n)
				if n%7 == 0 {
					l.Discard()
				}
				if memory[0] != byte(i) || memory[len(memory)-1] != byte(n) {
					t.Error("a segment was written by two")
				}
				l.Release()
			}
		})
	}
	group.Wait()
	require.Zero(t, p.Stats().Lent)
	p.Close()
	require.Zero(t, b.Used())
}

// What is kept can be lent again with its content, until the lender needs the segment or the batch is
// gone.
func TestKeptSegmentsKeepTheirContent(t *testing.T) {
	b := budget.New(1 << 30)
	p := NewLender(b, 16*minSize)
	kept := func(mark byte) *Loan {
		l := lend(t, p, 1)
		l.Memory()[0] = mark
		l.Keep()
		return l
	}
	one, two := kept(1), kept(2)
	one.Release()
	require.Equal(t, LenderStats{Lent: minSize, Kept: minSize}, p.Stats())
	require.True(t, one.Revive())
	require.True(t, one.Revive(), "while it is lent")
	one.Release()
	one.Release()
	two.Release()
	require.Equal(t, LenderStats{Kept: 2 * minSize}, p.Stats())

	three := lend(t, p, 1) // an eighth of the limit is kept: the one that has been for longest is taken
	require.Same(t, one.segment, three.segment)
	require.False(t, one.Revive())
	one.Unkeep()
	require.Equal(t, LenderStats{Lent: minSize, Kept: minSize}, p.Stats())
	four := lend(t, p, 1)
	require.NotSame(t, two.segment, four.segment, "less is kept now")
	require.True(t, two.Revive())
	require.Equal(t, byte(2), two.Memory()[0])
	two.Release()
	two.Unkeep()
	require.Equal(t, LenderStats{Lent: 2 * minSize, Free: minSize}, p.Stats())
	three.Release()
	four.Release()

	five := kept(5)
	five.Discard()
	five.Release()
	require.False(t, five.Revive(), "other processes may have it")
	five.Unkeep()
	six := kept(6)
	six.Unkeep()
	six.Release()
	require.False(t, six.Revive())
	require.Zero(t, p.Stats().Kept)
	p.Close()
	require.Zero(t, b.Used())
}

// TestKeptSegmentsAreClosedForOtherUses checks that kept segments are closed for segments of
// another size, for reservations, and by Close.
func TestKeptSegmentsAreClosedForOtherUses(t *testing.T) {
	for name, need := range map[string]func(*Lender, *budget.Budget){
		"another size":  func(p *Lender, _ *budget.Budget) { lend(t, p, 4*minSize).Release() },
		"a reservation": func(_ *Lender, b *budget.Budget) { require.NoError(t, mustReserve(b, 8*minSize-minSize/2)) },
		"the end":       func(p *Lender, _ *budget.Budget) { p.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			b := budget.New(8 * minSize)
			p := NewLender(b, 4*minSize)
			l := lend(t, p, 1)
			l.Keep()
			l.Release()
			need(p, b)
			require.False(t, l.Revive())
			l.Unkeep()
			p.Close()
			require.Equal(t, LenderStats{}, p.Stats())
		})
	}
}

func mustReserve(b *budget.Budget, bytes int64) error {
	held, err := b.Reserve("test", bytes)
	if err == nil {
		held.Release()
	}
	return err
}
