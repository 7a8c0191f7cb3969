// Package policy decides what a client may do: which datasets it may read, of which tables it may send datasets of its own,
// and which columns and rows of a table it does not get.
//
// A Policy is a list of rules. The first rule that names the client and the dataset decides alone, so that a rule with
// withheld columns cannot be widened by a later one. What no rule names is refused.
//
// Decisions depend on the policy and the client alone: there is no clock, disk or network here.
package policy
