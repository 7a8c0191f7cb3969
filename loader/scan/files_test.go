package scan

import (
	"context"
	"runtime"
	"testing"
	"weak"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/loader/plan"
)

// TestFilesDoNotRetainTheirReader checks that files, which are used long after their stream
// has ended, do not retain the stream's reader through its context.
func TestFilesDoNotRetainTheirReader(t *testing.T) {
	t.Parallel()
	type stream struct{ _ [64]byte }
	read := func() (files func(row int64) string, of weak.Pointer[stream]) {
		s := &stream{}
		r := newReader(context.WithValue(t.Context(), stream{}, s), &Scanner{}, plan.Source{}, nil)
		defer r.Release()
		return r.Files(), weak.Make(s)
	}
	files, of := read()
	runtime.GC()
	require.Nil(t, of.Value())
	require.Empty(t, files(0))
}
