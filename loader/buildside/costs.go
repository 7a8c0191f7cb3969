package buildside

import (
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/penstock/penstock/loader/plan"
)

// Costs is what the build sides of a staging input cost a stream. Those that
// another stream built cost it nothing.
type Costs struct {
	Strategy string // how they were searched; several, if groups differed
	Read     int64  // bytes of files that were read
	// ReadAgain is bytes of files of groups that the stream had read before it was
	// parked.
	ReadAgain int64
	Stored    int64 // bytes of the distinct files that were
	Spilled   int64 // bytes that were written to local disk
}

// costs adds them up. Build sides are also built ahead, on other goroutines.
type costs struct {
	mu         sync.Mutex
	files      map[string]bool // locations of those that were read
	all        Costs
	strategies map[string]bool
	groups     map[int]bool // by number: those that were read
	earlier    map[int]bool // by number: those that were read before the stream was parked
}

// addRead notes that the source of a group is read.
func (c *costs) addRead(group int, source plan.Source) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.files == nil {
		c.files, c.groups = map[string]bool{}, map[int]bool{}
	}
	if c.earlier[group] {
		for _, f := range source.Files {
			c.all.ReadAgain += f.File.Bytes
		}
		return
	}
	c.groups[group] = true
	for _, f := range source.Files {
		if !c.files[f.File.Location] {
			c.all.Stored += f.File.Bytes
		}
		c.files[f.File.Location] = true
		c.all.Read += f.File.Bytes
	}
}

// addSpilled notes bytes that were written to local disk.
func (c *costs) addSpilled(bytes int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all.Spilled += bytes
}

// addStrategy notes how a build side is searched.
func (c *costs) addStrategy(strategy string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.strategies == nil {
		c.strategies = map[string]bool{}
	}
	c.strategies[strategy] = true
}

// follow takes over what was counted before a stream was parked, which nothing
// adds to any more.
func (c *costs) follow(earlier *costs) {
	c.files, c.all, c.strategies = earlier.files, earlier.all, earlier.strategies
	c.groups = earlier.groups
	c.earlier = maps.Clone(earlier.groups)
}

func (c *costs) sum() Costs {
	c.mu.Lock()
	defer c.mu.Unlock()
	sum := c.all
	sum.Strategy = strings.Join(slices.Sorted(maps.Keys(c.strategies)), ", ")
	return sum
}
