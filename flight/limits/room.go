package limits

import "slices"

// Room is a limited number of places for members that cannot wait. If the room is full, a new
// member replaces the oldest member of the client with the most members. The owner of the room
// guards it with a lock.
type Room[M comparable] struct {
	places  int // 0: no limit
	share   int // places that one client may have; the client "", which is all Unix domain sockets, may have all
	count   int
	members map[string][]M // by client, the oldest first
}

// NewRoom returns an empty room. One client may have the given percentage of its places.
func NewRoom[M comparable](places, percent int) *Room[M] {
	return &Room[M]{places: places, share: shareOf(places, percent), members: map[string][]M{}}
}

// Len returns how many members there are.
func (r *Room[M]) Len() int { return r.count }

// Of returns the members of a client, the oldest first. They are valid until the next change.
func (r *Room[M]) Of(client string) []M { return r.members[client] }

// Enter adds a member if there is a place for it, and reports whether there is. If the room is
// full, the new member may replace a member of a client that has more members than its own client.
// Enter returns the replaced member, which is the oldest one for which mayGo is true, of the client
// with the most members. A nil mayGo is true for all members.
func (r *Room[M]) Enter(client string, m M, mayGo func(M) bool) (gone M, entered bool) {
	if r.places > 0 && client != "" && len(r.members[client]) >= r.share {
		return gone, false
	}
	if r.places > 0 && r.count >= r.places {
		from, i := r.oldest(len(r.members[client]), mayGo)
		if i < 0 {
			return gone, false
		}
		gone = r.members[from][i]
		r.Leave(from, gone)
	}
	r.count++
	r.members[client] = append(r.members[client], m)
	return gone, true
}

// oldest returns the index of the oldest replaceable member of the client with the most members,
// among the clients with more than the given number of members; -1 if there is none.
func (r *Room[M]) oldest(than int, mayGo func(M) bool) (client string, at int) {
	at = -1
	for name, of := range r.members {
		if len(of) <= than {
			continue
		}
		i := 0
		if mayGo != nil {
			i = slices.IndexFunc(of, mayGo)
		}
		if i >= 0 {
			client, at, than = name, i, len(of)
		}
	}
	return client, at
}

// Leave removes a member of a client. It may be called more than once.
func (r *Room[M]) Leave(client string, m M) {
	i := slices.Index(r.members[client], m)
	if i < 0 {
		return
	}
	r.count--
	r.members[client] = slices.Delete(r.members[client], i, i+1)
	if len(r.members[client]) == 0 {
		delete(r.members, client)
	}
}
