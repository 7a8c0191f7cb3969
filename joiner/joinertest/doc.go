// Package joinertest is what tests of joins have in common: streams of rows
// that are written as text, random joins of every kind ([RandomWorld]), and
// what they come to by looking at every pair of rows ([Oracle]).
package joinertest
