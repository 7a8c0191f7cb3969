package config

import (
	"log/slog"
	"maps"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/hostport"
	"github.com/penstock/penstock/loader/dataset"
)

// Config is the configuration of a server.
type Config struct {
	File     string                     // path of the config file, as given
	Catalogs map[string]dataset.Catalog // by name
	Datasets []dataset.Dataset          // in the order in which they are written
	Server   Server
	// Warnings are about properties in the file that have no effect.
	Warnings []string
	given    map[string]value // by name of the setting: the value that was given, if one was
}

// Dir returns the folder at which relative paths in the file start.
func (c *Config) Dir() string { return filepath.Dir(c.File) }

// DefaultCatalog returns the name of the catalog of tables that do not name a catalog. This is the
// catalog called default; if there is none, it is the only catalog. If there is no such catalog,
// DefaultCatalog returns "".
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

// Server has the settings of a server. The table Settings describes each field, with its
// default and its name in the file.
type Server struct {
	Listen           string
	Insecure         bool
	TLSCert          string // path; "" is no TLS
	TLSKey           string // path
	TLSClientCA      string // path; "" requires no certificates of clients
	Tokens           string // path; "" accepts no static tokens
	JWTIssuer        string // "" accepts no JWT
	JWTAudience      string
	JWTKeys          string        // path or URL
	JWTKeysMaxAge    time.Duration // maximum age of keys from a URL; 0 is no limit
	AuditLog         string        // path, or AuditStderr; "" is off
	Policy           string        // path; "" is none
	Memory           int64         // bytes
	Spool            string        // path; "" is the system's folder for temporary files
	SpoolLimit       int64         // bytes; 0 is no limit
	StorageTimeout   time.Duration // 0 is no limit
	MaxMetadata      int64         // bytes
	ReadTail         int64         // bytes
	ReadGap          int64         // bytes
	ReadSize         int64         // bytes
	ReadAhead        int64         // bytes
	RequireChecksums bool
	MaxStreams       int    // 0 is no limit; streamsFollow derives it from the memory budget
	MaxPeerShare     int    // percent
	MaxBatchBytes    int64  // 0 derives it from the memory budget
	ShareBatches     int64  // shareFollows derives it from the memory budget; 0 is off
	CacheMemory      int64  // cacheFollows derives it from the memory budget; 0 is off
	CacheDir         string // path; "" is off
	CacheDisk        int64  // bytes
	LocalSocket      string // path; "" is off
	StallTimeout     time.Duration
	Drain            time.Duration
	TicketKeys       string // path; "" is a random key
	TicketLifetime   time.Duration
	TicketRenewal    time.Duration
	Advertise        []string
	Metrics          string // "" is off
	Health           string // "" is off
	Pprof            bool
	Trace            Collector // zero is off
	TraceEvery       int       // the number of steps of which one is traced
	TraceHeaders     string    // path; "" is none
	TraceCA          string    // path; "" stands for the CAs of the system
	LogLevel         slog.Level
	LogFormat        string // "text" or "json"
}

// Collector is where traces are sent.
type Collector struct {
	Address string // host:port; "" is nowhere
	TLS     bool
}

// loopback reports whether the collector is on this machine.
func (c Collector) loopback() bool {
	host, _, err := net.SplitHostPort(c.Address)
	return err == nil && hostport.IsLoopback(host)
}

// AuditStderr is the value of AuditLog for an audit log on standard error.
const AuditStderr = "stderr"

// Origin has the sources of a configuration.
type Origin struct {
	File   string                      // path of the config file
	Env    func(string) (string, bool) // looks up an environment variable; nil means there are none
	Flags  map[string]string           // given flags by name, lists joined by commas
	Memory int64                       // bytes of memory of the machine or container; 0 is unknown
	// Storage lists the properties that the kinds of remote storage read; nil means those of S3.
	Storage []string
}

// Load reads a configuration. If it has faults, Load returns Invalid with all of them and the
// file's name. If the file does not exist, Load returns NotFound.
func Load(origin Origin) (*Config, error) {
	c := &Config{File: origin.File, Catalogs: map[string]dataset.Catalog{}}
	var given source
	for _, s := range Settings() {
		// The defaults in the table are valid; a test checks this.
		_ = s.set(&c.Server, value{text: s.Default})
	}
	c.Server.Memory = defaultMemory(origin.Memory)
	c.Server.MaxStreams = streamsFollow
	c.Server.ShareBatches = shareFollows
	c.Server.CacheMemory = cacheFollows

	if err := c.readFile(&given, origin); err != nil {
		return nil, err
	}
	given.environment(origin.Env)
	given.flags(origin.Flags)
	last := map[string]value{}
	for _, s := range Settings() {
		// Values that are overridden by later values are checked, too.
		for _, v := range given.values[s.Name] {
			if err := s.set(&c.Server, v); err != nil {
				given.faults = append(given.faults, v.fault(err.Error()))
			}
			last[s.Name] = v
		}
	}
	c.given = last
	given.faults = append(given.faults, tooSmall(origin.Memory, given.values["memory"])...)
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

// ofFile reports whether a fault is in the file and not in a flag or variable.
func ofFile(f fault.Field) bool {
	return !strings.HasPrefix(f.Field, "--") && !strings.HasPrefix(f.Field, envPrefix)
}

// contradictions returns faults of settings that cannot be combined.
func (s Server) contradictions(given map[string]value) []fault.Field {
	if s.Pprof && s.Metrics == "" {
		return []fault.Field{given["pprof"].fault("profiles are served beside the metrics, and metrics is not set")}
	}
	if s.TLSCert == "" && s.TLSKey != "" {
		return []fault.Field{given["tls_key"].fault("TLS needs the certificate of the key too, and tls_cert is not set")}
	}
	if s.TLSCert != "" && s.TLSKey == "" {
		return []fault.Field{given["tls_cert"].fault("TLS needs the key of the certificate too, and tls_key is not set")}
	}
	if s.TLSCert == "" && s.TLSClientCA != "" {
		return []fault.Field{given["tls_client_ca"].fault("clients have certificates on TLS alone, and tls_cert is not set")}
	}
	if fault := s.addressContradiction(given); fault != nil {
		return fault
	}
	if fault := s.traceContradiction(given); fault != nil {
		return fault
	}
	if fault := s.jwtContradiction(given); fault != nil {
		return fault
	}
	if s.CacheDir != "" && s.CacheMemory == 0 {
		return []fault.Field{given["cache_dir"].fault("columns on disk are read through those in memory, and cache_memory is 0")}
	}
	return nil
}

// addressContradiction returns the fault of an address that serves two things.
func (s Server) addressContradiction(given map[string]value) []fault.Field {
	taken := map[string]string{s.Listen: "listen"}
	for _, one := range []struct{ setting, address string }{{"metrics", s.Metrics}, {"health", s.Health}} {
		if one.address == "" || strings.HasSuffix(one.address, ":0") {
			continue
		}
		if other, is := taken[one.address]; is {
			return []fault.Field{given[one.setting].fault(one.address + " is the address of " + other + " too: choose another port")}
		}
		taken[one.address] = one.setting
	}
	return nil
}

// traceContradiction returns the fault of headers of traces that have no use, or that would be sent without encryption.
func (s Server) traceContradiction(given map[string]value) []fault.Field {
	switch {
	case s.TraceHeaders == "":
	case s.Trace.Address == "":
		return []fault.Field{given["trace_headers"].fault("the headers are sent with traces, and trace is not set")}
	case !s.Trace.TLS && !s.Trace.loopback():
		return []fault.Field{given["trace_headers"].fault("headers with credentials are sent to other machines with TLS alone: begin trace with https://")}
	}
	return nil
}

// jwtContradiction returns the fault of JWT settings some of which are missing.
func (s Server) jwtContradiction(given map[string]value) []fault.Field {
	settings := []struct{ name, text string }{{"jwt_issuer", s.JWTIssuer}, {"jwt_audience", s.JWTAudience}, {"jwt_keys", s.JWTKeys}}
	set, missing := "", ""
	for _, one := range settings {
		if one.text == "" {
			missing = one.name
		} else {
			set = one.name
		}
	}
	if set == "" || missing == "" {
		return nil
	}
	return []fault.Field{given[set].fault("a JWT is checked by issuer, audience and keys together, and " + missing + " is not set")}
}

// BatchBytes returns the maximum memory of a batch.
func (s Server) BatchBytes() int64 {
	if s.MaxBatchBytes > 0 {
		return s.MaxBatchBytes
	}
	return min(maxBatch, s.Memory/batchShare)
}

// SharedBytes returns the maximum memory of the batches that streams share; 0 turns sharing off.
func (s Server) SharedBytes() int64 {
	if s.ShareBatches != shareFollows {
		return s.ShareBatches
	}
	return min(maxShared, s.Memory/sharedShare)
}

// CacheBytes returns how many bytes of decoded columns may be cached. The same number of bytes of
// build sides may be cached, too. 0 turns both caches off.
func (s Server) CacheBytes() int64 {
	if s.CacheMemory != cacheFollows {
		return min(s.CacheMemory, s.Memory/2)
	}
	return s.Memory / cacheShare
}

// cacheFollows is the default of CacheMemory. It means budget/cacheShare.
const (
	cacheFollows = -1
	cacheShare   = 4
)

// MappedBytes returns the maximum size of all batches in mapped memory; 0 turns mapped memory off.
func (s Server) MappedBytes() int64 {
	if s.LocalSocket == "" {
		return 0
	}
	return min(maxShared, s.Memory/sharedShare)
}

// shareFollows is the default of ShareBatches.
const shareFollows = -1

// The default maximum of shared batches, and the maximum of batches in mapped memory, is
// budget/sharedShare, but at most maxShared bytes.
const (
	sharedShare = 8
	maxShared   = 1 << 30
)

// Streams returns how many streams may be open at once; 0 is unlimited.
func (s Server) Streams() int {
	if s.MaxStreams != streamsFollow {
		return s.MaxStreams
	}
	return int(max(minStreams, min(s.Memory/streamMemory, maxStreams)))
}

// streamsFollow is the default of MaxStreams.
const streamsFollow = -1

// The default number of streams: one for each streamMemory bytes of the memory budget.
// Streams that read many lanes or wide rows use more memory, and wait for it if necessary.
const (
	streamMemory = 16 << 20
	minStreams   = 8
	maxStreams   = 4096
)

// The default maximum of a batch: budget/batchShare, but at most maxBatch bytes.
const (
	batchShare = 8
	maxBatch   = 256 << 20
)
