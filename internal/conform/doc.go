// Package conform converts batches as Arrow producers make them to the types that tables have.
//
// Texts and binary values with 64-bit offsets, as views or in dictionaries become utf8 and
// binary, other dictionaries become their values, and large lists become lists, at any depth. Timestamps with a zone
// become timestamps in UTC, which changes no value, and uuids become fixed_size_binary of 16 bytes. Any other
// type that tables do not have is refused by name. No value is rounded or widened.
//
// The package is pure.
package conform
