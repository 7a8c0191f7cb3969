package joiner

import (
	"slices"
	"testing"
)

// BenchmarkColdIndex measures probing indexes that are in no cache, per training row: those of 16 build sides in
// turn, after other memory was read, as in a server that streams batches from memory.
func BenchmarkColdIndex(b *testing.B) {
	for _, order := range []string{"grouped", "random"} {
		staging, training := indexKeys(order == "grouped")
		sides := make([]*hashIndex, 16)
		for i := range sides {
			sides[i] = newHashIndex(keyVector{ints: slices.Clone(staging)}, int64(len(staging)))
			for row := range staging {
				sides[i].add(int32(row))
			}
		}
		training = training[:8192]
		refs, other := make([]int32, len(training)), make([]int64, 8<<20)
		b.Run(order, func(b *testing.B) {
			for b.Loop() {
				b.StopTimer()
				for i := range other {
					other[i]++
				}
				b.StartTimer()
				for _, side := range sides {
					side.lookupInts(training, refs)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(sides)*len(training)), "ns/row")
		})
	}
}
