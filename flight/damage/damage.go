// Package damage changes messages with Arrow rows in the ways that harm a reader: the structure of their headers, the sizes
// that they claim, and their compressed buffers. It is for tests and attacks.
package damage

import (
	"encoding/binary"
	"slices"
)

// Message is a message with Arrow rows, as Flight sends it.
type Message struct{ Header, Body []byte }

// Clone returns a copy.
func (m Message) Clone() Message { return Message{slices.Clone(m.Header), slices.Clone(m.Body)} }

// Pick returns a number in [0, n); n is above 0.
type Pick func(n int) int

// Sizes that overflow, that no memory has, or that differ by one from others.
var sizes = []uint64{0, 1, 2, 3, 7, 1<<7 - 1, 1 << 7, 1<<15 - 1, 1 << 16, 1 << 20, 1<<31 - 1, 1 << 31, 1<<32 - 3, 1 << 30, 1 << 40, 1 << 62, 1 << 63, 1<<64 - 1} //nolint:gochecknoglobals // a table

// Change damages a message in one to three ways.
func Change(m Message, pick Pick) {
	for range 1 + pick(3) {
		if len(m.Header) < 8 {
			return
		}
		switch ways := 8; pick(ways) {
		case 0, 1:
			vtable(m.Header, pick)
		case 2:
			offset(m.Header, pick)
		case 3, 4:
			write(m.Header, pick(len(m.Header)), 1<<pick(4), sizes[pick(len(sizes))])
		case 5:
			if at, ok := compressed(m, pick); ok {
				write(m.Body, at, 8, sizes[pick(len(sizes))])
			}
		case 6:
			if at, ok := compressed(m, pick); ok { // the head of a frame: its window and its sizes
				write(m.Body, at+12+pick(6), 1<<pick(3), sizes[pick(len(sizes))])
			}
		default:
			of := m.Header
			if len(m.Body) > 0 && pick(2) == 0 {
				of = m.Body
			}
			of[pick(len(of))] ^= 1 << pick(8)
		}
	}
}

// write writes a number, as far as there are bytes.
func write(p []byte, at, bytes int, n uint64) {
	if at < 0 || at >= len(p) {
		return
	}
	var wide [8]byte
	binary.LittleEndian.PutUint64(wide[:], n)
	copy(p[at:min(at+bytes, len(p))], wide[:])
}

// tables returns the places in a header that can be tables: those with a vtable of a possible length.
func tables(p []byte) []int {
	var out []int
	for at := 4; at+4 <= len(p); at += 4 {
		names := at - int(int32(binary.LittleEndian.Uint32(p[at:]))) //nolint:gosec // two's complement
		if names == at || names < 4 || names+4 > len(p) {
			continue
		}
		if n := int(binary.LittleEndian.Uint16(p[names:])); n >= 4 && n <= 32 && names+n <= len(p) {
			out = append(out, at)
		}
	}
	return out
}

// pickTable returns one of the tables of a header, or false if there is none.
func pickTable(p []byte, pick Pick) (t tablePlace, ok bool) {
	all := tables(p)
	if len(all) == 0 {
		return t, false
	}
	t.table = all[pick(len(all))]
	t.names = t.table - int(int32(binary.LittleEndian.Uint32(p[t.table:]))) //nolint:gosec // two's complement
	t.length = int(binary.LittleEndian.Uint16(p[t.names:]))
	return t, true
}

// tablePlace has the places of a table and of its vtable, and the length of the vtable.
type tablePlace struct{ table, names, length int }

// entry returns the place of one of the entries of the vtable.
func (t tablePlace) entry(pick Pick) int { return t.names + 4 + 2*pick(max(1, (t.length-4)/2)) }

// vtable changes the length or an entry of a vtable.
func vtable(p []byte, pick Pick) {
	t, ok := pickTable(p, pick)
	if !ok {
		return
	}
	if pick(2) == 0 {
		write(p, t.names, 2, uint64(max(0, t.length-1-pick(4)))) //nolint:gosec // not negative
		return
	}
	write(p, t.entry(pick), 2, []uint64{0, 2, 4, 5, 8, 1 << 15, 1<<16 - 1}[pick(7)])
}

// offset changes where a field of a table leads, and the length of a list there.
func offset(p []byte, pick Pick) {
	t, ok := pickTable(p, pick)
	if !ok {
		return
	}
	entry := t.entry(pick)
	if entry+2 > len(p) {
		return
	}
	field := t.table + int(binary.LittleEndian.Uint16(p[entry:]))
	if field+4 > len(p) {
		return
	}
	if pick(2) == 0 {
		write(p, field, 4, []uint64{0, 1, uint64(pick(len(p))), 1<<32 - 3, 1<<32 - 8, 1 << 31, 1<<31 - 1}[pick(7)]) //nolint:gosec // not negative
		return
	}
	write(p, field+int(binary.LittleEndian.Uint32(p[field:])), 4, sizes[pick(len(sizes))])
}

// compressed returns the place of a buffer that seems to be compressed, by the first bytes of its frame.
func compressed(m Message, pick Pick) (at int, ok bool) {
	var all []int
	for at := 0; at+12 <= len(m.Body); at += 8 {
		if magic := binary.LittleEndian.Uint32(m.Body[at+8:]); magic == 0xFD2FB528 || magic == 0x184D2204 {
			all = append(all, at)
		}
	}
	if len(all) == 0 {
		return 0, false
	}
	return all[pick(len(all))], true
}
