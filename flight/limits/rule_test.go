package limits_test

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"sort"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/flight/limits"
)

// The rule of the documentation, applied to a history of calls. It shares nothing with the queue: it keeps a list of all calls
// that ever came, and computes everything from that list, each time anew.

type call struct {
	client string
	bytes  int64
	firm   bool
	came   int           // number of the call
	turn   int           // when it got its place; 0: it has none yet
	from   time.Duration // when it got its place
	to     time.Duration // when it left; -1: it has not
	out    bool          // it was refused or gave up
}

func (c *call) waits() bool { return c.turn == 0 && !c.out }
func (c *call) has() bool   { return c.turn > 0 && c.to < 0 }

type rule struct {
	places, share int
	claims        int
	bytes         int64
	costly        bool
	calls         []*call
	turns         int
	known         map[string]int // the turn at which a client came for the first time
}

func (r *rule) count(which func(*call) bool) int {
	n := 0
	for _, c := range r.calls {
		if which(c) {
			n++
		}
	}
	return n
}

func (r *rule) holds(client string) int {
	return r.count(func(c *call) bool { return c.client == client && c.has() })
}

// cost is how many seconds a client has used of late: what it used half a minute ago counts half, and so on.
func (r *rule) cost(client string, now time.Duration) int {
	sum := 0.0
	for _, c := range r.calls {
		if r.costly && c.client == client && c.turn > 0 && c.to >= 0 {
			sum += (c.to - c.from).Seconds() * math.Pow(0.5, (now-c.to).Seconds()/30)
		}
	}
	return int(sum)
}

func (r *rule) lastTurn(client string) int {
	last := r.known[client]
	for _, c := range r.calls {
		if c.client == client {
			last = max(last, c.turn)
		}
	}
	return last
}

// give gives free places to calls that wait.
func (r *rule) give(now time.Duration) {
	for r.count((*call).has) < r.places {
		var may []*call
		for _, c := range r.calls {
			if c.waits() && (c.client == "" || r.holds(c.client) < r.share) {
				may = append(may, c)
			}
		}
		if len(may) == 0 {
			return
		}
		sort.SliceStable(may, func(i, j int) bool {
			a, b := may[i].client, may[j].client
			if x, y := r.holds(a), r.holds(b); x != y {
				return x < y
			}
			if x, y := r.cost(a, now), r.cost(b, now); x != y {
				return x < y
			}
			return r.lastTurn(a) < r.lastTurn(b)
		})
		r.turns++
		may[0].turn, may[0].from = r.turns, now
	}
}

// come adds a call, and refuses what is too many.
func (r *rule) come(c *call, now time.Duration) {
	if _, known := r.known[c.client]; !known {
		r.turns++
		r.known[c.client] = r.turns
	}
	c.came, c.to = len(r.calls), -1
	r.calls = append(r.calls, c)
	r.give(now)
	for {
		held := map[string]int64{}
		var most, all int64
		var last *call
		n := r.count(func(c *call) bool { return c.waits() && !c.firm })
		for _, c := range r.calls {
			if c.waits() {
				all += c.bytes
			}
		}
		byBytes := all > r.bytes && n > 1
		if !byBytes && n <= r.claims {
			return
		}
		for _, c := range r.calls {
			switch {
			case c.waits() && byBytes:
				held[c.client] += c.bytes
			case c.waits() && !c.firm:
				held[c.client]++
			}
		}
		for _, c := range r.calls {
			if c.waits() && !c.firm && held[c.client] >= most {
				most, last = held[c.client], c
			}
		}
		last.out = true
	}
}

// TestTheQueueFollowsTheRule lets random calls come, leave and give up, and compares which of them have places, which wait and
// which were refused.
//
// spec: wire-14, wire-47
func TestTheQueueFollowsTheRule(t *testing.T) {
	t.Parallel()
	for seed := range uint64(60) {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { follow(t, rand.New(rand.NewPCG(seed, 7))) })
		})
	}
}

func follow(t *testing.T, random *rand.Rand) {
	places, percent := 1+random.IntN(6), 20+random.IntN(81)
	r := &rule{
		places: places, share: max(1, places*percent/100), claims: 3 + random.IntN(8), bytes: int64(20 + random.IntN(40)),
		costly: random.IntN(2) == 0, known: map[string]int{},
	}
	full := errors.New("full")
	q := limits.NewQueue(limits.Options{
		Places: places, Percent: percent, Local: true, Claims: r.claims, Bytes: r.bytes, Costly: r.costly, Clock: time.Now,
		Full: func(limits.Counts) error { return full },
	})
	clients, began := []string{"", "a", "b", "c", "d"}, time.Now()
	var claims []*claimed // as r.calls
	for range 150 {
		now := time.Since(began)
		switch one := pick(random, r); {
		case one == nil || random.IntN(2) == 0:
			c := &call{client: clients[random.IntN(len(clients))], bytes: random.Int64N(16), firm: random.IntN(8) == 0}
			r.come(c, now)
			claims = append(claims, claim(t, q, c))
		case one.has():
			one.to = now
			r.give(now)
			claims[one.came].Leave()
		default:
			one.out = true
			claims[one.came].cancel()
		}
		synctest.Wait()
		for i, c := range r.calls {
			require.Equal(t, c.has(), claims[i].has(q), "call %d of %q has a place", i, c.client)
			require.Equal(t, c.waits(), !claims[i].ended(), "call %d of %q waits", i, c.client)
		}
		require.Equal(t, r.count((*call).has), q.Counts().Taken)
		time.Sleep(time.Duration(random.Int64N(int64(4 * time.Second))))
	}
	for _, c := range claims {
		c.cancel()
		synctest.Wait()
		c.Leave()
	}
	require.Equal(t, limits.Counts{Places: places, Share: r.share, Most: places}, q.Counts())
}

// pick returns a call that has a place or waits; nil if none was found.
func pick(random *rand.Rand, r *rule) *call {
	open := slices.DeleteFunc(slices.Clone(r.calls), func(c *call) bool { return !c.has() && !c.waits() })
	if len(open) == 0 {
		return nil
	}
	return open[random.IntN(len(open))]
}

// TestManyCallsGainAClientNothing: whatever other clients do, a new one waits for at most one place of each of them.
//
// spec: wire-14, wire-47
func TestManyCallsGainAClientNothing(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 8))
			q := limits.NewQueue(limits.Options{
				Places: 1, Percent: 100, Claims: 40, Bytes: 1000, Costly: random.IntN(2) == 0, Clock: time.Now,
				Full: func(limits.Counts) error { return errors.New("full") },
			})
			var greedy []*claimed
			flood := func() {
				for range 1 + random.IntN(30) {
					greedy = append(greedy, claim(t, q, &call{client: strconv.Itoa(random.IntN(4))}))
				}
			}
			flood()
			innocent := claim(t, q, &call{client: "innocent"})
			for turns := 0; !innocent.has(q); turns++ {
				require.Less(t, turns, 5, "one place of each of the four others, and the one that was taken")
				require.False(t, innocent.ended(), "it is not refused")
				i := slices.IndexFunc(greedy, func(c *claimed) bool { return c.has(q) })
				time.Sleep(time.Duration(random.Int64N(int64(time.Minute))))
				flood()
				greedy[i].Leave()
				synctest.Wait()
			}
			innocent.Leave()
			for _, c := range greedy {
				c.cancel()
				synctest.Wait()
				c.Leave()
			}
			require.Zero(t, q.Counts().Taken+q.Counts().Waiting)
		})
	}
}
