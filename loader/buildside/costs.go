package buildside

import (
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/penstock/penstock/loader/plan"
)

// Costs are the costs of a staging input's build sides to a stream. A build side that another
// stream built costs this stream nothing, except for the bytes in Shared.
type Costs struct {
	Strategy string // how rows are looked up; if groups differ, a list separated by commas
	Read     int64  // stored bytes of the column chunks that were read
	Shared   int64  // stored bytes of the column chunks that another stream read for both streams
	// ReadAgain is the stored bytes read for groups that the stream had already read before it was
	// parked.
	ReadAgain int64
	Stored    int64 // the bytes of Read and Shared, with each file counted once
	Spilled   int64 // bytes written to local disk
}

// costs sums the Costs of a stream. Prefetches add costs on other goroutines.
type costs struct {
	mu         sync.Mutex
	files      map[string]int64 // by location: how many bytes of the file Costs.Stored includes
	all        Costs
	strategies map[string]bool
	groups     map[int]bool // by number: whether the group was read
	earlier    map[int]bool // by number: whether the group was read before the stream was parked
}

// counting returns a copy of source for reading a group. A scan of the copy counts the bytes that
// it requests from storage.
func (c *costs) counting(group int, source plan.Source) plan.Source {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.files == nil {
		c.files, c.groups = map[string]int64{}, map[int]bool{}
	}
	again, read := c.earlier[group], map[string]int64{}
	if !again {
		c.groups[group] = true
	}
	source.Asked = func(location string, bytes int64) {
		c.mu.Lock()
		defer c.mu.Unlock()
		if again {
			c.all.ReadAgain += bytes
			return
		}
		c.all.Read += bytes
		read[location] += bytes
		if more := read[location] - c.files[location]; more > 0 { // an earlier read of the file may have counted fewer bytes, if it ended early
			c.files[location] += more
			c.all.Stored += more
		}
	}
	return source
}

// addSpilled counts bytes written to local disk.
func (c *costs) addSpilled(bytes int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all.Spilled += bytes
}

// addStrategy records how rows of a build side are looked up.
func (c *costs) addStrategy(strategy string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.strategies == nil {
		c.strategies = map[string]bool{}
	}
	c.strategies[strategy] = true
}

// follow continues the counts from before a stream was parked. The costs in earlier must no longer
// change.
func (c *costs) follow(earlier *costs) {
	c.files, c.all, c.strategies = earlier.files, earlier.all, earlier.strategies
	c.groups = earlier.groups
	c.earlier = maps.Clone(earlier.groups)
}

func (c *costs) sum() Costs {
	c.mu.Lock()
	defer c.mu.Unlock()
	sum := c.all
	sum.Strategy = strings.Join(slices.Sorted(maps.Keys(c.strategies)), separator)
	return sum
}

// Minus returns the difference from earlier costs. The result has the strategies of c.
func (c Costs) Minus(earlier Costs) Costs {
	c.Read, c.Shared, c.ReadAgain = c.Read-earlier.Read, c.Shared-earlier.Shared, c.ReadAgain-earlier.ReadAgain
	c.Stored, c.Spilled = c.Stored-earlier.Stored, c.Spilled-earlier.Spilled
	return c
}

// take adds the costs of another Groups. If own is set, they count as this stream's own costs.
// Otherwise the bytes that were read count as shared, and the bytes that were written to disk do
// not count.
func (c *costs) take(more Costs, own bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !own {
		more.Shared, more.Read, more.Spilled = more.Shared+more.Read+more.ReadAgain, 0, 0
		more.ReadAgain = 0
	}
	c.all.Read += more.Read
	c.all.Shared += more.Shared
	c.all.ReadAgain += more.ReadAgain
	c.all.Stored += more.Stored
	c.all.Spilled += more.Spilled
	if c.strategies == nil {
		c.strategies = map[string]bool{}
	}
	for strategy := range strings.SplitSeq(more.Strategy, separator) {
		if strategy != "" {
			c.strategies[strategy] = true
		}
	}
}

// separator separates strategies.
const separator = ", "
