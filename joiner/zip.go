package joiner

import (
	"bytes"
	"context"
)

// zipSearch is a search for training rows in the order of the build side's keys. It
// compares a key with the current row and the next one, and searches like merge if it is
// neither.
type zipSearch struct{ *mergeSearch }

func (z *zipSearch) lookup(_ context.Context, wanted *Keys, refs []int32) error {
	m := z.mergeSearch
	if wanted.encoded.ends != nil {
		z.lookupBytes(wanted.encoded, refs)
		return nil
	}
	keys := m.keys.ints[:m.to]
	is := func(row int32, key int64) bool { return int(row) < len(keys) && keys[row] == key }
	for i, key := range wanted.encoded.ints {
		found := is(m.at, key)
		if !found && is(m.at+1, key) {
			m.at++
			found = true
		}
		if !found {
			m.seekInt(keys, key)
			found = is(m.at, key)
		}
		refs[i] = 0
		if found {
			refs[i] = m.at + 1
		}
	}
	return nil
}

func (z *zipSearch) lookupBytes(wanted keyVector, refs []int32) {
	m := z.mergeSearch
	is := func(row int32, key []byte) bool { return row < m.to && bytes.Equal(m.keys.key(row), key) }
	for i := range refs {
		key := wanted.key(int32(i))
		found := is(m.at, key)
		if !found && is(m.at+1, key) {
			m.at++
			found = true
		}
		if !found {
			m.seekBytes(key)
			found = is(m.at, key)
		}
		refs[i] = 0
		if found {
			refs[i] = m.at + 1
		}
	}
}
