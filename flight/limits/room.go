package limits

import "slices"

// Room is a limited number of places for members that cannot wait. If the room is full, a new
// member either replaces the oldest member of the client with the most members, or is refused. The
// owner of the room guards it with a lock.
type Room[M comparable] struct {
	places  int // 0: no limit
	share   int // places that one client may have; the client "", which stands for all connections on Unix domain sockets, may have all places
	count   int
	members map[string][]M // by client, the oldest first
}

// NewRoom returns an empty room. Each client may have at most the given percentage of the places,
// but at least one place.
func NewRoom[M comparable](places, percent int) *Room[M] {
	return &Room[M]{places: places, share: shareOf(places, percent), members: map[string][]M{}}
}

// Len returns how many members there are.
func (r *Room[M]) Len() int { return r.count }

// Of returns the members of a client, the oldest first. The slice is valid until the next call of
// Enter or Leave.
func (r *Room[M]) Of(client string) []M { return r.members[client] }

// Enter adds member m of a client, and reports whether there was a place for it. If the room is
// full, m can replace a member of another client that has more members than the client of m. Among
// the members for which mayGo returns true, Enter replaces the oldest member of the client with the
// most members, and returns the replaced member as gone. A nil mayGo allows every member to be
// replaced.
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

// oldest considers the clients that have more members than the number than, and at least one member
// that may be replaced. Of these clients, it takes the one with the most members, and returns the
// index of its oldest replaceable member. It returns -1 if there is no such client.
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
