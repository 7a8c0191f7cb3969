package fanout

// KeyOf returns the key of the groups that a stream may join.
var KeyOf = keyOf

// Gatherable returns how many bytes a group with one member may gather at its origin.
func (s *Sharer) Gatherable() int64 { return s.gatherable() }
