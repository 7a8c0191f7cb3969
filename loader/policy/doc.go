// Package policy decides what a client may do: the datasets that it may read, the tables that datasets of its own may name,
// and the columns and rows of tables that are withheld from it.
//
// A Policy is a list of rules. The first rule that names the client and the dataset decides alone, so a later rule
// cannot widen a rule with withheld columns. Anything that no rule names is refused.
//
// Decisions depend only on the policy and the client. The package is pure.
package policy
