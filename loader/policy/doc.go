// Package policy decides what a client may do: the datasets that it may read, the tables that datasets of its own may name,
// and the columns and rows of tables that are withheld from it.
//
// A Policy is a list of rules. Only the first rule that names both the client and the dataset
// counts, so a later rule cannot return columns that an earlier rule withholds. Anything that no
// rule names is refused.
//
// Decisions depend only on the policy and the client. The package is pure.
package policy
