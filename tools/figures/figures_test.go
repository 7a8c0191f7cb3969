package main

import (
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
)

// TestFigures measures a small tree by hand.
func TestFigures(t *testing.T) {
	f, err := measure(fstest.MapFS{
		"go.mod": {Data: []byte("module m\n")},
		"a/a.go": {Data: []byte(`// Package a has a reader.
package a

// Reader has six fields.
type Reader[T any] struct {
	name    string
	rows    int
	seen    map[int]bool
	n       atomic.Int64
	p       atomic.Pointer[int]
	ended   bool
}

type Undocumented interface {
	A()
	B()
}

func newReader() *Reader[int] {
	r := &Reader[int]{}
	r.name = "x"
	return r
}

func (r *Reader[T]) Next() {
	r.rows++
	r.seen[1] = true // not a comment line
	local := r
	local.name = "not seen"
}

func end(r *Reader[int]) { r.ended = true }
`)},
		"a/b.go":            {Data: []byte("package a\n")},
		"a/a_test.go":       {Data: []byte("package a\n\nvar x = 1\n")},
		"a/testdata/x.go":   {Data: []byte("broken\n")},
		"other/go.mod":      {Data: []byte("module other\n")},
		"other/other.go":    {Data: []byte("package other\n")},
		"a/atest/kit.go":    {Data: []byte("package atest\n")},
		".hidden/hidden.go": {Data: []byte("package hidden\n")},
	})
	require.NoError(t, err)
	require.Equal(t, []structFigure{{"a.Reader", 6, 5}}, f.structs)
	require.Equal(t, []packageFigure{{"a", 2}}, f.packages)
	require.Equal(t, `| non-test Go |  |
|---|---|
| lines | 33 |
| file p50/p90 (max) | 1/1 (32) |
| function p50/p90/p99 (max) | 5/5/5 (6) |
| interface p50/p90 (max) | 2/2 (2) |
| exported types documented | 50 % |
| comment lines per 100 of code | 8 |
| files per package p90 (max) | 2 (2) |
| lines of test per line | 0.09 |
| mutable fields per struct p50/p90/p99 (max) | 5/5/5 (5) |
`, f.table())
	_, err = measure(fstest.MapFS{"a/a.go": {Data: []byte("packag a")}})
	require.ErrorContains(t, err, "a/a.go:1:1")
}

func TestLongSubjects(t *testing.T) {
	over, all := longSubjects(strings.Repeat("é", maxSubject) + "\n" + strings.Repeat("x", maxSubject+1) + "\nshort\n")
	require.Equal(t, 1, over)
	require.Equal(t, 3, all)
}

func TestPercentiles(t *testing.T) {
	require.Equal(t, "2/4 (5)", percentiles([]int{5, 4, 3, 2, 1}, 25, 90))
	require.Equal(t, "none", percentiles(nil, 50))
}
