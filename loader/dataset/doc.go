// Package dataset holds the values that say what is to be read: a Dataset (a
// named join), a Query (one client's wish), a Pin (which snapshots), a Shard
// and a Cursor (which part, and from where). A File holds the datasets of a
// config file and what stands beside them.
//
// They are plain values with a YAML and a JSON form. Both syntaxes are read
// into one small tree and decoded from there by tables of known fields.
// Decoding is strict: an unknown field is a fault that proposes the nearest
// known one, a field or value that this version does not serve is refused by
// name, a field twice is a fault, and all faults are reported at once, in one
// Invalid error with a path each (and the line, in YAML). A field that is null
// counts as left out. Decoded values carry their defaults. Names of columns and
// tables, and the types in filters, are not looked up here: the package knows no
// tables, files or network.
//
// What is written is canonical: fields in a fixed order, and in datasets and
// queries those at their defaults left out, so that the same meaning has the
// same bytes and decoding gives the same value back.
package dataset
