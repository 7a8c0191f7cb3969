package loader

import (
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/penstock/penstock/joiner"
	"github.com/penstock/penstock/loader/plan"
)

// StagingReport is what a stream met of one staging table.
type StagingReport struct {
	joiner.Counts
	Strategy      string  `json:"strategy"`        // that ran; several, if classes differed
	BytesRead     int64   `json:"bytes_read"`      // of files, by this stream: sides that another stream built cost it nothing
	Amplification float64 `json:"amplification"`   // bytes read over the bytes of the distinct files that were; 0 if none was
	SpilledBytes  int64   `json:"spilled_bytes"`   // written to local disk
	Sent          int64   `json:"sent,omitempty"`  // of wire: indexed: rows of the table in the batches' dictionaries
	Ratio         float64 `json:"ratio,omitempty"` // rows of the stream over Sent
}

// met adds up what a level's sides cost. Sides are also built ahead, on another
// goroutine.
type met struct {
	mu         sync.Mutex
	files      map[string]int64 // bytes, by location
	bytes      int64
	spilled    int64
	strategies map[string]bool
}

// read notes that a source is read.
func (m *met) read(source plan.Source) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.files == nil {
		m.files = map[string]int64{}
	}
	for _, f := range source.Files {
		m.files[f.File.Location] = f.File.Bytes
		m.bytes += f.File.Bytes
	}
}

// spill notes bytes that were written to local disk.
func (m *met) spill(bytes int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.spilled += bytes
}

// ran notes how a side is searched.
func (m *met) ran(strategy string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.strategies == nil {
		m.strategies = map[string]bool{}
	}
	m.strategies[strategy] = true
}

// report returns what was met, beside what joins counted.
func (m *met) report(counts joiner.Counts) StagingReport {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := StagingReport{
		Counts: counts, Strategy: strings.Join(slices.Sorted(maps.Keys(m.strategies)), ", "),
		BytesRead: m.bytes, SpilledBytes: m.spilled,
	}
	stored := int64(0)
	for _, bytes := range m.files {
		stored += bytes
	}
	if stored > 0 {
		r.Amplification = float64(m.bytes) / float64(stored)
	}
	return r
}
