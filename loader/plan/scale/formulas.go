package scale

import (
	"math"

	"github.com/penstock/penstock/loader/plan"
)

// Measured constants (docs/scale.md). They are those of tables with rows of 290 to 2,100 bytes.
const (
	// secondsPerByte is the CPU time of a server for a byte of a plain row, with decoding.
	secondsPerByte = 1e-9
	// narrowest is the size of the narrowest rows that were measured, in bytes. Narrower ones count as these.
	narrowest = 290
	// indexedShare is the CPU time for an indexed row relative to that of a plain one.
	indexedShare = 0.7
	// headroom is the ratio of the cores to have to those that are busy.
	headroom = 2
	// streamCores and streamCoresIndexed are how many cores one stream can use.
	streamCores, streamCoresIndexed = 4, 7
	// UsableLink is the share of a link that is left for rows: the rest is headers of TCP and HTTP/2.
	UsableLink = 0.9
	// requestsPerFile are the read requests for a file: its end, and its columns.
	requestsPerFile = 2
	// decoded is roughly the ratio of the size of a build side in memory to that of its files.
	decoded = plan.Decoded
	// batchesHeld is the assumed number of batches that a server holds for a stream.
	batchesHeld = 4
	// columnsShare is the share of the budget for decoded columns, and that for build sides that no stream needs.
	columnsShare = 0.25
	// budgetPerSlot is the memory budget for one stream's slot, with default settings, and leastSlots the least number of slots.
	budgetPerSlot, leastSlots, mostSlots = 16 << 20, 8, 4096
	// defaultShare is the share of a machine's memory that is its budget by default.
	defaultShare = 0.5
)

// CPU returns the CPU seconds of a server for a row of a plain size in bytes.
func CPU(rowBytes float64, indexed bool) float64 {
	seconds := max(rowBytes, narrowest) * secondsPerByte
	if indexed {
		seconds *= indexedShare
	}
	return seconds
}

// Spread returns on how many of n servers something is read that k streams need, on average over placements of the streams.
func Spread(k, n float64) float64 { return n * (1 - math.Pow(1-1/n, k)) }

// BuildSides returns how many build sides n servers build in an epoch, if each keeps those that it built.
func (f Facts) BuildSides(n int) (sides float64) {
	for _, e := range f.Staging {
		sides += e.Sides(n)
	}
	return sides
}

// Sides is like BuildSides, for one entry.
func (e Entry) Sides(n int) float64 {
	if e.Groups == 0 {
		return 0
	}
	return float64(e.Groups) * Spread(float64(e.Users)/float64(e.Groups), float64(n))
}

// StagingRead returns the stored bytes of staging tables that n servers read in an epoch, if each keeps its build sides.
func (f Facts) StagingRead(n int) (bytes float64) {
	for _, e := range f.Staging {
		if e.Groups > 0 {
			bytes += e.Sides(n) * float64(e.Bytes) / float64(e.Groups)
		}
	}
	return bytes
}

// Read returns the stored bytes that n servers read in the first epoch, and in each epoch if they keep nothing between epochs.
func (f Facts) Read(n int) float64 { return float64(f.Training.StreamBytes) + f.StagingRead(n) }

// ReadLater returns the stored bytes that n servers read in the second epoch if their caches keep everything. If lanes have other
// rows in each epoch, a row is where it was before with a chance of 1 in n.
func (f Facts) ReadLater(n int) float64 {
	if f.LanesKeepRows {
		return 0
	}
	return f.Read(n) * (1 - 1/float64(n))
}

// Requests returns the read requests for data files of n servers in the first epoch.
func (f Facts) Requests(n int) float64 {
	files := float64(f.Training.StreamFiles)
	for _, e := range f.Staging {
		if e.Groups > 0 {
			files += e.Sides(n) * float64(e.Files) / float64(e.Groups)
		}
	}
	return requestsPerFile * files
}

// Rate returns the rows/s that n servers send at most, if streams are spread evenly: the lesser of what links and cores allow. A link
// is in bytes/s; 0 cores: there is no limit.
func Rate(n int, rowBytes, link, cpu float64, cores int64) float64 {
	rate := UsableLink * link / rowBytes
	if cores > 0 {
		rate = min(rate, float64(cores)/cpu)
	}
	return float64(n) * rate
}

// Budget returns the memory budget that a server with some streams needs, in bytes: row groups of open lanes, the build sides that
// these join, and batches. Build sides have at most 7/8 of a budget, and batches half.
func (f Facts) Budget(streams int, batchBytes float64) float64 {
	lanes := float64(streams) * float64(f.Lanes) / float64(f.Streams)
	sides := 0.0
	for _, e := range f.Staging {
		sides += min(float64(e.Groups), lanes*float64(e.AtOnce)) * decoded * float64(e.Largest)
	}
	batches := float64(streams) * batchesHeld * batchBytes
	return max(lanes*float64(f.LaneBytes)+sides+batches, sides*8/7, batches*2)
}

// CacheBudget returns the memory budget of each of n servers with which their caches keep what an epoch reads: decoded columns, and
// build sides.
func (f Facts) CacheBudget(n int) float64 {
	columns, sides := float64(f.Rows)*f.TrainingBytes/float64(n), decoded*f.StagingRead(n)/float64(n)
	return max(columns, sides) / columnsShare
}

// Process returns the memory of a process with a memory budget, in bytes.
func Process(budget float64) float64 { return 1.25*budget + 256<<20 }

// Slots returns how many streams a server takes with the default settings and a memory budget.
func Slots(budget float64) int { return int(min(mostSlots, max(leastSlots, budget/budgetPerSlot))) }

// Moved returns how many streams lose their server if some of n servers are lost.
func (f Facts) Moved(lost, n int) float64 { return float64(f.Streams) * float64(lost) / float64(n) }

// ReadAgain returns the stored bytes and the requests for streams that move: each reads the file and the build sides that it was at,
// unless the new server has the build side, of the n-lost servers that are left.
func (f Facts) ReadAgain(lost, n int) (bytes, requests float64) {
	moved := f.Moved(lost, n)
	if f.Training.Files > 0 {
		bytes = moved * float64(f.Training.Bytes) / float64(f.Training.Files)
		requests = moved * requestsPerFile
	}
	for _, e := range f.Staging {
		if e.Groups == 0 {
			continue
		}
		missing := moved * (1 - e.Sides(n)/float64(n)/float64(e.Groups))
		bytes += missing * float64(e.Bytes) / float64(e.Groups)
		requests += missing * requestsPerFile * float64(e.Files) / float64(e.Groups)
	}
	return bytes, requests
}
