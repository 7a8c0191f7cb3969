// Package dataset holds the values that say what is to be read: a Dataset (a
// named join), a Query (one client's wish), a Pin (which snapshots), a Shard
// and a Cursor (which part, and from where).
//
// They are plain values with a YAML and a JSON form (DESIGN 3.1, 5.1, 5.2).
// Decoding is strict: an unknown field is a fault that proposes the nearest
// known one, a field that this version does not serve is refused by name, and
// all faults are reported at once. Decoded values carry their defaults. The
// package is a leaf: it knows no tables, files or network.
package dataset
