package limits_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/flight/limits"
)

// member is a member of a room, in a list of all members in order of arrival.
type member struct {
	client string
	busy   bool // it may not go
}

// numberOf returns how many members a client has.
func numberOf(all []*member, client string) int {
	n := 0
	for _, m := range all {
		if m.client == client {
			n++
		}
	}
	return n
}

// roomCase is a room, and all its members in order of arrival.
type roomCase struct {
	*limits.Room[*member]
	random        *rand.Rand
	places, share int
	all           []*member
}

// TestAFullRoomCostsTheClientWithTheMost lets random members enter and leave. It computes from a list of all members which ones
// may have to go for a new one.
//
// spec: wire-45
func TestAFullRoomCostsTheClientWithTheMost(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(5, 6))
	for range 60 {
		places, percent := 1+random.IntN(12), 20+random.IntN(81)
		r := &roomCase{Room: limits.NewRoom[*member](places, percent), random: random, places: places, share: max(1, places*percent/100)}
		for range 300 {
			if i := random.IntN(2 * places); i < len(r.all) && random.IntN(3) == 0 {
				r.Leave(r.all[i].client, r.all[i])
				r.Leave(r.all[i].client, r.all[i])
				r.all = slices.Delete(r.all, i, i+1)
			} else {
				r.enter(t)
			}
			require.Equal(t, len(r.all), r.Len())
		}
	}
}

// enter lets a random member enter.
func (r *roomCase) enter(t *testing.T) {
	client := []string{"", "a", "b", "c", "d"}[r.random.IntN(5)]
	own := numberOf(r.all, client)
	var mayGo func(*member) bool
	if r.random.IntN(2) == 0 {
		mayGo = func(m *member) bool { return !m.busy }
	}
	var victims []*member // the oldest of each client with the most
	most := own
	for _, m := range r.all {
		n := numberOf(r.all, m.client)
		if n <= own || mayGo != nil && m.busy || n < most {
			continue
		}
		if n > most {
			victims, most = nil, n
		}
		if !slices.ContainsFunc(victims, func(o *member) bool { return o.client == m.client }) {
			victims = append(victims, m)
		}
	}
	m := &member{client, r.random.IntN(2) == 0}
	gone, entered := r.Enter(client, m, mayGo)
	atShare, full := client != "" && own >= r.share, len(r.all) == r.places
	require.Equal(t, !atShare && (!full || len(victims) > 0), entered)
	require.Equal(t, entered && full, gone != nil)
	if gone != nil {
		require.Contains(t, victims, gone)
		r.all = slices.DeleteFunc(r.all, func(o *member) bool { return o == gone })
	}
	var of []*member
	if entered {
		r.all = append(r.all, m)
	}
	for _, m := range r.all {
		if m.client == client {
			of = append(of, m)
		}
	}
	require.Equal(t, of, slices.Clone(r.Of(client)))
}

func TestARoomWithoutALimit(t *testing.T) {
	t.Parallel()
	r := limits.NewRoom[int](0, 50)
	for i := range 100 {
		gone, entered := r.Enter("a", i, nil)
		require.Zero(t, gone)
		require.True(t, entered)
	}
	require.Equal(t, 100, r.Len())
}
