package joiner

import (
	"math/rand/v2"
	"testing"
)

// BenchmarkIndex measures building and probing the index alone, per training row, and a Go
// map that does the same.
func BenchmarkIndex(b *testing.B) {
	for _, order := range []string{"grouped", "random"} {
		staging, training := indexKeys(order == "grouped")
		refs := make([]int32, len(training))
		report := func(b *testing.B) {
			b.Helper()
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(training)), "ns/row")
		}
		b.Run(order+"/index", func(b *testing.B) {
			for b.Loop() {
				x := hashIndex{integral: true, keys: keyVector{ints: staging}, slots: make([]uint32, slotsFor(int64(len(staging))))}
				for i := range staging {
					x.add(int32(i))
				}
				x.lookupInts(training, refs)
			}
			report(b)
		})
		b.Run(order+"/map", func(b *testing.B) {
			for b.Loop() {
				x := make(map[int64]int32, len(staging))
				for i, key := range staging {
					x[key] = int32(i) + 1
				}
				for i, key := range training {
					refs[i] = x[key]
				}
			}
			report(b)
		})
	}
}

// indexKeys returns unsorted staging keys, and training keys: each staging key ten times,
// adjacent or in random order.
func indexKeys(grouped bool) (staging, training []int64) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, i := range r.Perm(25_000) {
		staging = append(staging, int64(i)*16)
	}
	for _, i := range r.Perm(len(staging)) {
		for range 10 {
			training = append(training, staging[i])
		}
	}
	if !grouped {
		r.Shuffle(len(training), func(i, j int) { training[i], training[j] = training[j], training[i] })
	}
	return staging, training
}
