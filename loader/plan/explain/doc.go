// Package explain describes plans for people: what a query reads, in which order, why, and what it costs. Text says it in
// full, and Summary draws it on a screen. Texts are stable for a given plan.
package explain
