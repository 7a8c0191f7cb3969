package stats

import "unsafe"

// clusterSums is the number of sums of Clusters. The relative standard error of the sum of squares is the square root of 2/clusterSums,
// which is 9 %.
const clusterSums = 256

// ClustersBytes is the memory of Clusters in bytes.
const ClustersBytes = int64(unsafe.Sizeof(Clusters{}))

// Clusters estimates how many independent rows there are among rows that come in clusters, whose values are all alike: for example, the
// training rows that join the same staging row. It does not hold the clusters: each row adds 1 to one of a few sums, or subtracts 1,
// by the hash of its cluster, and the squares of the sums have the expected sum of the squared sizes of the clusters. The zero value has
// no rows.
//
// Sources: Charikar, Chen, Farach-Colton: Finding frequent items in data streams, 2002; Kish: Survey Sampling, 1965, section 11.7.
type Clusters struct {
	rows, alone int64
	sums        [clusterSums]int64
}

// Add adds a row of the cluster with a hash, all of whose bits are random.
func (c *Clusters) Add(hash uint64) {
	c.rows++
	c.sums[hash%clusterSums] += 1 - 2*int64(hash>>63)
}

// AddAlone adds a row that is the only one of its cluster.
func (c *Clusters) AddAlone() {
	c.rows++
	c.alone++
}

// Merge adds the rows of other clusters. Rows with the same hash are of the same cluster.
func (c *Clusters) Merge(other *Clusters) {
	c.rows, c.alone = c.rows+other.rows, c.alone+other.alone
	for i, v := range other.sums {
		c.sums[i] += v
	}
}

// Effect returns the design effect: the number of rows for each of (sum of sizes)²/(sum of squared sizes) independent rows. It is at
// least 1.
func (c *Clusters) Effect() float64 {
	squares := float64(c.alone)
	for _, v := range c.sums {
		squares += float64(v) * float64(v)
	}
	return max(1, squares/float64(max(c.rows, 1)))
}
