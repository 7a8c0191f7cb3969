package config

import (
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/dataset"
)

// Config is everything that a server is told.
type Config struct {
	File     string                     // path of the config file, as it was given
	Catalogs map[string]dataset.Catalog // by name
	Datasets []dataset.Dataset          // in the order written
	Server   Server
	// Warnings are about what stands in the file and means nothing here.
	Warnings []string
}

// Dir returns the folder that relative paths of the file start from.
func (c *Config) Dir() string { return filepath.Dir(c.File) }

// DefaultCatalog names the catalog of tables that name none: the one called
// default, or else the only one; "" if there is no such catalog.
func (c *Config) DefaultCatalog() string {
	names := slices.Collect(maps.Keys(c.Catalogs))
	switch {
	case slices.Contains(names, defaultCatalog):
		return defaultCatalog
	case len(names) == 1:
		return names[0]
	}
	return ""
}

const defaultCatalog = "default"

// Server is how a server runs. The table of Settings says what each field
// means, its default, and what it is called in the file.
type Server struct {
	Listen           string
	Insecure         bool
	Memory           int64         // bytes
	Spool            string        // path; "": the system's folder for temporary files
	SpoolLimit       int64         // bytes; 0: no limit
	StorageTimeout   time.Duration // 0: no limit
	MaxMetadata      int64         // bytes
	ReadTail         int64         // bytes
	ReadGap          int64         // bytes
	ReadSize         int64         // bytes
	ReadAhead        int64         // bytes
	RequireChecksums bool
	MaxStreams       int   // 0: no limit; streamsFollow: what follows from the memory budget
	MaxPeerShare     int   // percent
	MaxBatchBytes    int64 // 0: what follows from the memory budget
	StallTimeout     time.Duration
	Drain            time.Duration
	TicketKeys       string // path; "": a random key
	TicketLifetime   time.Duration
	TicketRenewal    time.Duration
	Advertise        []string
	Metrics          string // "": off
	Pprof            bool
	LogLevel         slog.Level
	LogFormat        string // "text" or "json"
}

// Origin is where a configuration comes from.
type Origin struct {
	File   string                      // path of the config file
	Env    func(string) (string, bool) // looks a variable of the environment up; nil: there are none
	Flags  map[string]string           // flags that were given, by name, lists joined by commas
	Memory int64                       // bytes of memory of the machine or its container; 0: not known
}

// Load reads a configuration. What is wrong is Invalid (NotFound for a file
// that is not there), names the file, and lists every fault found.
func Load(origin Origin) (*Config, error) {
	c := &Config{File: origin.File, Catalogs: map[string]dataset.Catalog{}}
	var given source
	for _, s := range Settings() {
		// The table's own defaults are right; a test says so.
		_ = s.set(&c.Server, value{text: s.Default})
	}
	c.Server.Memory = defaultMemory(origin.Memory)
	c.Server.MaxStreams = streamsFollow

	if err := c.readFile(&given, origin.Env); err != nil {
		return nil, err
	}
	given.environment(origin.Env)
	given.flags(origin.Flags)
	last := map[string]value{}
	for _, s := range Settings() {
		// What is overridden is read too: its faults are faults.
		for _, v := range given.values[s.Name] {
			if err := s.set(&c.Server, v); err != nil {
				given.faults = append(given.faults, v.fault(err.Error()))
			}
			last[s.Name] = v
		}
	}
	given.faults = append(given.faults, c.Server.contradictions(last)...)
	slices.SortStableFunc(given.faults, func(a, b fault.Field) int { return a.Line - b.Line })
	if err := fault.Fields(given.faults); err != nil {
		e := fault.As(err)
		if slices.ContainsFunc(given.faults, ofFile) {
			e = e.In("", c.File)
		}
		return nil, e
	}
	return c, nil
}

// ofFile says whether a fault lies in the file: flags and variables have names of their own.
func ofFile(f fault.Field) bool {
	return !strings.HasPrefix(f.Field, "--") && !strings.HasPrefix(f.Field, envPrefix)
}

// contradictions are settings that do not go together.
func (s Server) contradictions(given map[string]value) []fault.Field {
	if s.Pprof && s.Metrics == "" {
		return []fault.Field{given["pprof"].fault("profiles are served beside the metrics, and metrics is not set")}
	}
	return nil
}

// BatchBytes returns the most memory that a batch may take.
func (s Server) BatchBytes() int64 {
	if s.MaxBatchBytes > 0 {
		return s.MaxBatchBytes
	}
	return min(batchMost, s.Memory/batchShare)
}

// Streams returns how many streams may be open at once; 0: any number.
func (s Server) Streams() int {
	if s.MaxStreams != streamsFollow {
		return s.MaxStreams
	}
	return int(max(streamsLeast, min(s.Memory/streamMemory, streamsMost)))
}

// streamsFollow is the MaxStreams of a server that was not told.
const streamsFollow = -1

// How many streams there are places for, if nothing is set: one for so many
// bytes of the memory budget. Streams that read many lanes or wide rows take
// more; those that find none wait for memory.
const (
	streamMemory = 16 << 20
	streamsLeast = 8
	streamsMost  = 4096
)

// A batch may take one part in so many of the memory budget, and no more than so
// many bytes, if nothing else is set.
const (
	batchShare = 8
	batchMost  = 256 << 20
)

// Memory sizes, in bytes.
const (
	memoryUnknown = 2 << 30  // the budget where the machine's memory is not known
	memoryMost    = 64 << 30 // the largest budget that is chosen without being asked for
)

// defaultMemory returns the budget for a machine with so many bytes of memory
// (0: not known): half of it, at most 64 GiB.
func defaultMemory(machine int64) int64 {
	if machine <= 0 {
		return memoryUnknown
	}
	return min(machine/2, memoryMost)
}
