package tensor_test

import (
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/tensor"
)

// A plan is charged before it is read. Plans with the most memory for their texts have many short
// values: integers of few digits, and texts of few letters.
func TestPassedBytesCoverPlans(t *testing.T) {
	const count = 200_000
	list := func(f func(i int) string) string {
		values := make([]string, count)
		for i := range values {
			values[i] = f(i)
		}
		return "[" + strings.Join(values, ",") + "]"
	}
	codes := "[" + strings.Join(slices.Repeat([]string{"7"}, count), ",") + "]"
	for name, values := range map[string]string{
		"integers":    `"integers":` + list(func(i int) string { return strconv.Itoa(i) }),
		"short texts": `"strings":` + list(func(i int) string { return fmt.Sprintf("%q", fmt.Sprintf("%x", i)) }),
		"long texts":  `"strings":` + list(func(i int) string { return fmt.Sprintf("%q", fmt.Sprintf("%064x", i)) }),
		"bytes":       `"bytes":` + list(func(i int) string { return fmt.Sprintf("%q", fmt.Sprintf("%04x", i)[:4]) }),
	} {
		t.Run(name, func(t *testing.T) {
			text := []byte(`{"plan":{"columns":[]},"vocabularies":[{` + values + `,"codes":` + codes + `}]}`)
			reading, result := tensor.PassedBytes(text)
			var plan tensor.Plan
			var err error
			before := heap()
			require.LessOrEqual(t, allocated(func() { plan, err = tensor.ReadPassed(text) }), reading)
			require.NoError(t, err)
			require.LessOrEqual(t, heap()-before, result)
			runtime.KeepAlive(plan)
			runtime.KeepAlive(text)
		})
	}
}

// heap returns the bytes of all objects that are referenced.
func heap() int64 {
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}
