package fanout

// KeyOf returns the key of the groups that a stream may join.
var KeyOf = keyOf
