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
	Stored   int64  // bytes of the distinct files that were
	Spilled  int64  // bytes that were written to local disk
}

// costs adds them up. Build sides are also built ahead, on other goroutines.
type costs struct {
	mu         sync.Mutex
	files      map[string]bool // locations of those that were read
	all        Costs
	strategies map[string]bool
}

// addRead notes that a source is read.
func (c *costs) addRead(source plan.Source) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.files == nil {
		c.files = map[string]bool{}
	}
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

func (c *costs) sum() Costs {
	c.mu.Lock()
	defer c.mu.Unlock()
	sum := c.all
	sum.Strategy = strings.Join(slices.Sorted(maps.Keys(c.strategies)), ", ")
	return sum
}
