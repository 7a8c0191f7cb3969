package deptest

import (
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strings"
)

// clearedMemory matches calls that depend on cleared memory, or hide that something else does.
var clearedMemory = regexp.MustCompile(`\b(memory\.NewGoAllocator|array\.MakeArrayOfNull|memory\.NewCheckedAllocator)\((memory\.DefaultAllocator\))?`)

// mayClear returns the files that may make these calls: those that define the replacements, and encoders whose messages outlive
// the release of their memory.
func mayClear() []string {
	return []string{"flight/frames/encoder.go", "flight/info.go", "internal/batch/zeroed.go", "benchmarks/floors/messages.go", "internal/batch/allocator_test.go"}
}

// insteadOf says what to call instead.
func insteadOf(call string) string {
	if call == "array.MakeArrayOfNull" {
		return "use batch.Nulls: the library writes no buffer, and its nulls are what the memory had"
	}
	return "use batch.Default, whose memory invariant builds fill"
}

// CheckMemory finds calls in the sources, tests included, that depend on cleared memory. It returns one sentence per call.
func CheckMemory(root fs.FS) (faults []string, err error) {
	err = fs.WalkDir(root, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && name != "." && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata"):
			return fs.SkipDir
		case !strings.HasSuffix(name, ".go") || slices.Contains(mayClear(), name) || strings.HasPrefix(name, "internal/deptest/"):
			return nil
		}
		src, err := fs.ReadFile(root, name)
		if err != nil {
			return err
		}
		for _, found := range clearedMemory.FindAllStringSubmatch(string(src), -1) {
			if found[1] != "memory.NewCheckedAllocator" || found[2] != "" {
				faults = append(faults, fmt.Sprintf("%s: %s: %s", name, found[1], insteadOf(found[1])))
			}
		}
		return nil
	})
	return faults, err
}
