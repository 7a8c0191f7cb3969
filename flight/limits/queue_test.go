package limits

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

var (
	errFull = errors.New("the queue is full")
	errLate = errors.New("it has waited for too long")
)

const patience = 30 * time.Second

// testOptions are those of a queue with a clock of a test.
func testOptions(places int) Options {
	return Options{
		Places: places, Percent: 50, Local: true, Claims: 100, Bytes: 1000, Costly: true, Clock: time.Now,
		Full: func(Counts) error { return errFull },
	}
}

// entered is a claim of a test.
type entered struct {
	*Claim
	cancel context.CancelFunc
	done   chan struct{}
	err    error
}

// enter makes a claim, and waits until it has its place or waits.
func enter(t *testing.T, q *Queue, c *Claim) *entered {
	ctx, cancel := context.WithCancel(t.Context())
	one := &entered{Claim: c, cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(one.done)
		one.err = q.Enter(ctx, c, patience, func() (time.Duration, error) { return 0, errLate })
	}()
	synctest.Wait()
	return one
}

func of(t *testing.T, q *Queue, client string) *entered { return enter(t, q, &Claim{Client: client}) }

func holding(t *testing.T, q *Queue, client string, bytes int64) *entered {
	return enter(t, q, &Claim{Client: client, Bytes: bytes})
}

// in reports whether the claim has its place.
func (c *entered) in() bool { return c.ended() && c.err == nil }

// ended reports whether the claim has a place or was refused.
func (c *entered) ended() bool {
	synctest.Wait()
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}

// demanding is a claim with terms.
type demanding struct {
	Claim
	terms   Terms
	granted []Terms
}

func (d *demanding) Terms() Terms    { return d.terms }
func (d *demanding) Granted(t Terms) { d.granted = append(d.granted, t) }

func on(t *testing.T, q *Queue, client string, terms Terms) (*entered, *demanding) {
	d := &demanding{terms: terms}
	d.Client, d.Special = client, d
	return enter(t, q, &d.Claim), d
}

func TestPlacesAreGivenOnTerms(t *testing.T) {
	t.Parallel()
	for name, check := range map[string]func(*testing.T, *Queue){
		"priority goes before fewer places": func(t *testing.T, q *Queue) {
			a := []*entered{of(t, q, "a"), of(t, q, "a"), of(t, q, "b"), of(t, q, "b")}
			another := of(t, q, "c")
			first, d := on(t, q, "a", Terms{Places: 1, First: true})
			a[0].Leave()
			require.True(t, first.in() && !another.ended())
			require.Len(t, d.granted, 1)
		},
		"a claim to several places waits for them, and those behind it wait too": func(t *testing.T, q *Queue) {
			a := []*entered{of(t, q, "a"), of(t, q, "a"), of(t, q, "b")}
			two, _ := on(t, q, "c", Terms{Places: 2})
			behind := of(t, q, "d")
			require.False(t, two.ended() || behind.ended())
			three, _ := on(t, q, "e", Terms{Places: 3})
			two.cancel()
			require.True(t, behind.in() && !three.ended(), "it has more than its share")
			for _, one := range append(a, behind) {
				one.Leave()
			}
			require.False(t, three.ended())
		},
		"a claim to more places than there are at present has them alone": func(t *testing.T, q *Queue) {
			a := of(t, q, "a")
			q.Change(func() { q.Limit(1) })
			two, _ := on(t, q, "b", Terms{Places: 2})
			require.False(t, two.ended() || of(t, q, "c").ended())
			a.Leave()
			require.True(t, two.in())
		},
		"a claim that cannot have a place lets others go": func(t *testing.T, q *Queue) {
			never, d := on(t, q, "a", Terms{Places: 1, Never: true})
			require.False(t, never.ended())
			require.True(t, of(t, q, "b").in())
			q.Change(func() { d.terms.Never = false })
			require.True(t, never.in())
		},
		"places are kept for a time": func(t *testing.T, q *Queue) {
			var kept *Kept
			q.Change(func() { kept = q.Keep(3, nil, time.Second) })
			a, b := of(t, q, "a"), of(t, q, "b")
			require.True(t, a.in() && !b.ended())
			its, _ := on(t, q, "c", Terms{Places: 1, Of: kept})
			require.True(t, its.in())
			require.Equal(t, 2, q.Counts().Kept)
			time.Sleep(time.Second)
			require.True(t, b.in())
			q.Look(func() { require.True(t, kept.Over() && kept.Places() == 0) })
		},
		"places that are kept in the name of a client count": func(t *testing.T, q *Queue) {
			a, kept := of(t, q, "a"), (*Kept)(nil)
			q.Change(func() { kept = q.Keep(1, a.Claim, time.Second) })
			other := of(t, q, "a")
			require.False(t, other.ended())
			its, _ := on(t, q, "a", Terms{Places: 1, Of: kept})
			require.True(t, its.in())
			q.Change(func() {
				require.Equal(t, 2, q.Held("a"))
				kept.Release()
				require.Equal(t, 2, q.Held("a"))
			})
			a.Leave()
			require.True(t, other.in())
		},
		"a closed queue has no claims that wait but firm ones": func(t *testing.T, q *Queue) {
			a := []*entered{of(t, q, "a"), of(t, q, "a")}
			waits, firm := of(t, q, "a"), enter(t, q, &Claim{Client: "a", Firm: true})
			closed := errors.New("closed")
			q.Close(closed)
			require.ErrorIs(t, refused(t, waits), closed)
			require.ErrorIs(t, refused(t, of(t, q, "a")), closed)
			require.True(t, of(t, q, "b").in(), "it does not wait")
			require.False(t, firm.ended())
			a[0].Leave()
			require.True(t, firm.in())
		},
		"a late claim may have more time": func(t *testing.T, q *Queue) {
			a, c, asked := []*entered{of(t, q, "a"), of(t, q, "a")}, &Claim{Client: "a"}, 0
			done := make(chan error, 1)
			go func() {
				done <- q.Enter(t.Context(), c, time.Second, func() (time.Duration, error) {
					asked++
					return time.Minute, nil
				})
			}()
			time.Sleep(10 * time.Second)
			a[0].Leave()
			require.NoError(t, <-done)
			require.Equal(t, 1, asked)
			require.NoError(t, q.Enter(t.Context(), c, 0, nil), "it keeps its place")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { check(t, NewQueue(testOptions(4))) })
		})
	}
}

func TestPlacesAreShared(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		places int
		check  func(*testing.T, *Queue)
	}{
		"no client has more than its share": {4, func(t *testing.T, q *Queue) {
			a := []*entered{of(t, q, "a"), of(t, q, "a"), of(t, q, "a")}
			require.True(t, a[0].in() && a[1].in() && !a[2].ended())
			require.True(t, of(t, q, "b").in())
			a[0].Leave()
			a[0].Leave()
			require.True(t, a[2].in())
			require.Equal(t, Counts{Places: 4, Share: 2, Most: 4, Taken: 3}, q.Counts())
		}},
		"but for sockets": {4, func(t *testing.T, q *Queue) {
			for range 4 {
				require.True(t, of(t, q, "").in())
			}
			q = NewQueue(Options{Places: 4, Percent: 50, Claims: 100, Clock: time.Now})
			for i := range 3 {
				require.Equal(t, i < 2, of(t, q, "").in(), "they are one client")
			}
		}},
		"the client with the fewest goes first": {2, func(t *testing.T, q *Queue) {
			a, b := of(t, q, "a"), of(t, q, "b")
			again, c := of(t, q, "a"), of(t, q, "c")
			b.Leave()
			require.True(t, c.in() && !again.ended())
			a.Leave()
			require.True(t, again.in())
		}},
		"then the one with the least use": {1, func(t *testing.T, q *Queue) {
			a := of(t, q, "a")
			time.Sleep(5 * time.Second)
			a.Leave()
			b := of(t, q, "b")
			again, b2, c := of(t, q, "a"), of(t, q, "b"), of(t, q, "c")
			time.Sleep(2 * time.Second)
			b.Leave()
			require.True(t, c.in())
			c.Leave()
			require.True(t, b2.in())
			b2.Leave()
			require.True(t, again.in())
			again.Leave()
			time.Sleep(10 * forgetHalf)
			d := of(t, q, "d")
			again, b = of(t, q, "a"), of(t, q, "e")
			d.Leave()
			require.True(t, again.in(), "what a used is long ago")
			again.Leave()
			require.True(t, b.in())
		}},
		"then by turns": {1, func(t *testing.T, q *Queue) {
			first := of(t, q, "a")
			again, more, b := of(t, q, "a"), of(t, q, "a"), of(t, q, "b")
			first.Leave()
			require.True(t, again.in(), "b came after a's last turn")
			again.Leave()
			require.True(t, b.in() && !more.ended())
		}},
		"a full queue refuses the last one of the client with most": {1, func(t *testing.T, q *Queue) {
			of(t, q, "a")
			var waiting []*entered
			for i := range 100 {
				waiting = append(waiting, of(t, q, fmt.Sprint("h", i%2)))
			}
			require.ErrorIs(t, refused(t, of(t, q, "h0")), errFull)
			require.False(t, of(t, q, "c").ended())
			require.ErrorIs(t, refused(t, waiting[len(waiting)-1]), errFull)
			require.False(t, enter(t, q, &Claim{Client: "h0", Firm: true}).ended(), "a firm claim may always wait")
			require.False(t, of(t, q, "d").ended())
			require.ErrorIs(t, refused(t, waiting[len(waiting)-2]), errFull, "h0 has one more than h1 that is not firm, or as many")
			require.Equal(t, 101, q.Counts().Waiting)
		}},
		"or with most bytes": {1, func(t *testing.T, q *Queue) {
			of(t, q, "a")
			large, small := holding(t, q, "a", 990), holding(t, q, "b", 10)
			require.Equal(t, 2, q.Counts().Waiting)
			require.False(t, holding(t, q, "b", 10).ended())
			require.ErrorIs(t, refused(t, large), errFull)
			require.False(t, small.ended())
			require.EqualValues(t, 20, q.Counts().Bytes)
		}},
		"one claim may wait whatever it holds": {1, func(t *testing.T, q *Queue) {
			a := of(t, q, "a")
			large := holding(t, q, "b", 5000)
			require.False(t, large.ended())
			a.Leave()
			require.True(t, large.in())
		}},
		"claims wait until they end": {1, func(t *testing.T, q *Queue) {
			a := of(t, q, "a")
			gone, late := holding(t, q, "b", 1), holding(t, q, "c", 1)
			gone.cancel()
			require.ErrorIs(t, refused(t, gone), context.Canceled)
			time.Sleep(patience)
			require.ErrorIs(t, refused(t, late), errLate)
			a.Leave()
			require.Equal(t, Counts{Places: 1, Share: 1, Most: 1}, q.Counts())
		}},
		"no limit": {0, func(t *testing.T, q *Queue) {
			for range 100 {
				require.True(t, of(t, q, "a").in())
			}
			require.Zero(t, q.Counts().Taken)
		}},
		"few clients are remembered": {1, func(t *testing.T, q *Queue) {
			held, waiting := of(t, q, "held"), of(t, q, "waiting")
			for i := range maxKnown {
				one := of(t, q, strconv.Itoa(i))
				one.cancel()
				require.ErrorIs(t, refused(t, one), context.Canceled)
			}
			require.Len(t, q.clients, 4, "with the last two")
			held.Leave()
			require.True(t, waiting.in())
		}},
		"no more claims yield than wait": {2, func(t *testing.T, q *Queue) {
			a, b := of(t, q, "a"), of(t, q, "b")
			require.False(t, q.Yield(a.Claim))
			queued := q.Queued()
			again := of(t, q, "a")
			<-queued
			require.False(t, q.Yield(b.Claim), "a has its share")
			require.True(t, q.Yield(a.Claim))
			require.False(t, q.Yield(a.Claim) || q.Yield(again.Claim))
			q.Stay(a.Claim)
			q.Stay(a.Claim)
			require.True(t, q.Yield(a.Claim))
			c := of(t, q, "c")
			require.False(t, q.Yield(b.Claim), "one claim could have the place of b, and one yields")
			a.Leave()
			require.True(t, again.in() && !c.ended(), "c came after the last turn of a")
			require.True(t, q.Yield(b.Claim))
			b.Leave()
			require.True(t, c.in())
			require.False(t, q.Yield(b.Claim), "it has none")
			again.Leave()
			require.NoError(t, q.Enter(t.Context(), b.Claim, patience, nil))
			of(t, q, "d")
			require.True(t, q.Yield(b.Claim), "again")
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { c.check(t, NewQueue(testOptions(c.places))) })
		})
	}
}

// refused returns the error of a claim that has no place.
func refused(t *testing.T, c *entered) error {
	t.Helper()
	require.True(t, c.ended())
	require.Error(t, c.err)
	return c.err
}

// A claim that tries gets a place only if no wait is necessary, and never waits.
func TestTryDoesNotWait(t *testing.T) {
	q := NewQueue(Options{Places: 2, Percent: 50, Claims: 10, Bytes: 100, Full: func(Counts) error { return nil }, Clock: time.Now})
	x, other, y := &Claim{Client: "x", Bytes: 5}, &Claim{Client: "x", Bytes: 5}, &Claim{Client: "y"}
	require.True(t, q.Try(x))
	require.True(t, q.Try(x), "it has its place")
	require.False(t, q.Try(other), "x has its share")
	require.Zero(t, q.Counts().Waiting)
	require.Zero(t, q.Counts().Bytes)
	require.True(t, q.Try(y))
	require.False(t, q.Try(&Claim{Client: "z"}))
	x.Leave()
	other.Leave()
	require.True(t, q.Try(other))
	require.Equal(t, 2, q.Counts().Taken)
	require.True(t, NewQueue(Options{}).Try(&Claim{}), "without a limit")
}
