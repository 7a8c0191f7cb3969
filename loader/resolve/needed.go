package resolve

import "slices"

// Asks reports whether outputs have a value of a staging entry: one of its columns, whether its
// rows match, or a training column that it overlays.
func Asks(outputs []Output, entry int) bool {
	return slices.ContainsFunc(Leaves(outputs), func(o Output) bool {
		return o.Table == entry || slices.ContainsFunc(o.Overlays, func(over Overlay) bool { return over.Table == entry })
	})
}

// Needed reports whether a stream joins the entry. asked reports whether the stream, or its
// filter, has a value of the entry (Asks). Without one, the entry is joined only if it drops or
// repeats rows, or if rows without a match can fail the stream.
func (s Staging) Needed(asked bool) bool {
	return s.Counted(asked) || s.Missing.Fail() || s.MinMatch > 0
}

// Counted reports whether the entry affects which rows a stream has: it drops or repeats rows, or
// a filter compares a value of it, which asked says.
func (s Staging) Counted(asked bool) bool {
	return asked || !s.Join.KeepsAll() || s.Duplicates.Multiply()
}
