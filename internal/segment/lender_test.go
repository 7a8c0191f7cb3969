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
