package deptest

import (
	"os"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
)

// TestMemoryIsNotCleared: tests and the product use memory that invariant builds fill, so that values that were never written are noticed.
func TestMemoryIsNotCleared(t *testing.T) {
	root := os.DirFS(moduleRoot)
	faults, err := CheckMemory(root)
	require.NoError(t, err)
	for _, fault := range faults {
		t.Error(fault)
	}
	for _, name := range mayClear() {
		src, err := os.ReadFile(moduleRoot + "/" + name)
		require.NoError(t, err)
		require.Regexp(t, clearedMemory, string(src), "%s is listed, and calls neither", name)
	}
}

func TestClearedMemoryIsFound(t *testing.T) {
	faults, err := CheckMemory(fstest.MapFS{
		"a/a_test.go":              {Data: []byte("package a\n\nvar x = array.MakeArrayOfNull(mem, t, 3)\n")},
		"a/b.go":                   {Data: []byte("package a\n\nvar y = f(memory.NewGoAllocator())\n")},
		"a/c_test.go":              {Data: []byte("package a\n\nvar z, y = memory.NewCheckedAllocator(batch.Default()), memory.NewCheckedAllocator(memory.DefaultAllocator)\n")},
		"a/testdata/c.go":          {Data: []byte("memory.NewGoAllocator()")},
		"flight/frames/encoder.go": {Data: []byte("package frames\n\nvar y = memory.NewGoAllocator()\n")},
	})
	require.NoError(t, err)
	require.Equal(t, []string{
		"a/a_test.go: array.MakeArrayOfNull: " + insteadOf("array.MakeArrayOfNull"),
		"a/b.go: memory.NewGoAllocator: " + insteadOf("memory.NewGoAllocator"),
		"a/c_test.go: memory.NewCheckedAllocator: " + insteadOf("memory.NewCheckedAllocator"),
	}, faults)
}
