// Package tensor converts Arrow record batches to tensors that lie in one block of bytes.
//
// A trainer's Python client decides how each column of a stream becomes a tensor, and sends these
// decisions as a Plan. Compile checks a plan against the stream's schema. The resulting Layout
// computes the size of a batch's block, and fills the block. docs/spec/blocks.md defines the
// bytes. They are equal to the tensors of the Python client's Converter, which remains the
// reference for the rules and reports mistakes of users.
//
// Blocks of plain batches can also be filled from indexed batches (see Compile). Each distinct row is then
// converted once, and copied to the block for each row that refers to it.
//
// The package is named after the contents of blocks, because "block" alone means a part of a
// shuffled window elsewhere.
//
// The package is pure: it reads arrays and writes to memory of the caller. It keeps no reference
// to a batch or block after a call. Fill uses idle cores. It never allocates per value. The caller charges the
// memory budget for blocks, for Sizes.Scratch while a block is filled, and for plans with their
// vocabularies (PassedBytes).
package tensor
