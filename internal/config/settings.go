package config

import (
	"fmt"
	"log/slog"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/hostport"
)

// Setting is a setting of a server.
type Setting struct {
	Name    string // name in the file's server block
	Default string // default as text; "" if there is none
	Shape   string // placeholder of the value in help; "" for a switch
	Usage   string
	List    bool // several values: a YAML list or a text with commas
	set     func(*Server, value) error
}

// Flag returns the setting's flag, without dashes.
func (s Setting) Flag() string { return strings.ReplaceAll(s.Name, "_", "-") }

// Env returns the setting's environment variable.
func (s Setting) Env() string { return envPrefix + strings.ToUpper(s.Name) }

// envPrefix begins the environment variables of settings.
const envPrefix = "PENSTOCK_"

// Switch reports whether the setting is a boolean.
func (s Setting) Switch() bool { return s.Shape == "" }

// value is the text of a setting and its source.
type value struct {
	text string
	from string // name of the source in errors, such as "server.listen", "PENSTOCK_LISTEN" or "--listen"
	line int    // line in the file; 0 for other sources
	dir  string // folder at which relative paths start
}

// Settings is the table of all settings.
func Settings() []Setting { //nolint:funlen // a table
	return []Setting{
		{
			Name: "listen", Default: "127.0.0.1:8815", Shape: "ADDRESS",
			Usage: "the address to serve on, host:port or unix:///path; port 0 takes any free one",
			set:   func(s *Server, v value) error { return listening(&s.Listen, v) },
		},
		{
			Name: "insecure", Default: "false",
			Usage: "listen without TLS or without credentials on an address that other machines can reach: anyone who reaches it can read what is sent, or every dataset",
			set:   func(s *Server, v value) error { return onOff(&s.Insecure, v) },
		},
		{
			Name: "tls_cert", Shape: "FILE",
			Usage: "the certificate of this server, with its intermediate certificates, in PEM form; loaded again when it changes (default: no TLS)",
			set:   func(s *Server, v value) error { s.TLSCert = v.path(); return nil },
		},
		{
			Name: "tls_key", Shape: "FILE",
			Usage: "the private key of the certificate, in a file that only this user can read (default: no TLS)",
			set:   func(s *Server, v value) error { s.TLSKey = v.path(); return nil },
		},
		{
			Name: "tls_client_ca", Shape: "FILE",
			Usage: "the CAs of clients' certificates: with this setting, clients need a certificate (default: clients need no certificate)",
			set:   func(s *Server, v value) error { s.TLSClientCA = v.path(); return nil },
		},
		{
			Name: "tokens", Shape: "FILE",
			Usage: "the tokens of clients: lines that penstock token new prints, with only the digests of tokens; loaded again when it changes (default: clients need no token)",
			set:   func(s *Server, v value) error { s.Tokens = v.path(); return nil },
		},
		{
			Name: "jwt_issuer", Shape: "TEXT",
			Usage: "the issuer (iss) that clients' JWTs must have (default: no JWT is accepted)",
			set:   func(s *Server, v value) error { s.JWTIssuer = v.text; return nil },
		},
		{
			Name: "jwt_audience", Shape: "TEXT",
			Usage: "the audience (aud) that clients' JWTs must have (default: no JWT is accepted)",
			set:   func(s *Server, v value) error { s.JWTAudience = v.text; return nil },
		},
		{
			Name: "jwt_keys", Shape: "FILE",
			Usage: "the public keys of the issuer (JWKS): a file, loaded again when it changes, or an https URL, fetched every five minutes (default: no JWT is accepted)",
			set:   func(s *Server, v value) error { s.JWTKeys = v.pathOrURL(); return nil },
		},
		{
			Name: "jwt_keys_max_age", Default: "24h", Shape: "TIME",
			Usage: "how long keys from a URL are used if they cannot be fetched again; 0 is no limit",
			set:   func(s *Server, v value) error { return duration(&s.JWTKeysMaxAge, v, 0) },
		},
		{
			Name: "audit_log", Shape: "FILE",
			Usage: "the file in which the server writes a line for each stream and each refusal, or stderr (default: none)",
			set: func(s *Server, v value) error {
				if s.AuditLog = v.text; s.AuditLog != AuditStderr {
					s.AuditLog = v.path()
				}
				return nil
			},
		},
		{
			Name: "policy", Shape: "FILE",
			Usage: "the access rules: which datasets, columns and rows clients may read, and which tables they may write; loaded again when it changes (default: every client that is admitted reads all datasets)",
			set:   func(s *Server, v value) error { s.Policy = v.path(); return nil },
		},
		{
			Name: "memory", Shape: "BYTES",
			Usage: "the memory budget, such as 4GiB (default: half of the memory of the machine or container, but at most 64GiB, and less if 1.25 times that and 256MiB do not fit)",
			set:   func(s *Server, v value) error { return size(&s.Memory, v) },
		},
		{
			Name: "spool", Shape: "FOLDER",
			Usage: "the folder on local disk for staging rows that do not fit in memory; created if its parent exists (default: the system's folder for temporary files)",
			set:   func(s *Server, v value) error { s.Spool = v.path(); return nil },
		},
		{
			Name: "spool_limit", Shape: "BYTES",
			Usage: "how much of the disk of spool may be used at a time, such as 200GiB (default: all except a tenth of the disk, or except 10GiB if that is less)",
			set:   func(s *Server, v value) error { return size(&s.SpoolLimit, v) },
		},
		{
			Name: "storage_timeout", Default: "1m", Shape: "TIME",
			Usage: "how long it may take to open a table's or catalog's file, to read from it once, or to call a catalog once; 0 is no limit",
			set:   func(s *Server, v value) error { return duration(&s.StorageTimeout, v, 0) },
		},
		{
			Name: "max_metadata", Default: "256MiB", Shape: "BYTES",
			Usage: "the largest metadata file, manifest list, manifest or Parquet footer, both stored and unpacked",
			set:   func(s *Server, v value) error { return size(&s.MaxMetadata, v) },
		},
		{
			Name: "read_tail", Default: "64KiB", Shape: "BYTES",
			Usage: "how much of the end of a Parquet file is read first, to find its footer; smaller files take one read",
			set:   func(s *Server, v value) error { return sizeFrom(&s.ReadTail, v, minRead) },
		},
		{
			Name: "read_gap", Default: "64KiB", Shape: "BYTES",
			Usage: "the largest gap between two column chunks that one request reads",
			set:   func(s *Server, v value) error { return sizeFrom(&s.ReadGap, v, minRead) },
		},
		{
			Name: "read_size", Default: "32MiB", Shape: "BYTES",
			Usage: "the largest request for several column chunks; longer runs are split into concurrent requests",
			set:   func(s *Server, v value) error { return sizeFrom(&s.ReadSize, v, minRead) },
		},
		{
			Name: "read_ahead", Default: "128MiB", Shape: "BYTES",
			Usage: "how much of the next row group is read while one is decoded, if memory allows; 0 is none",
			set:   func(s *Server, v value) error { return sizeFrom(&s.ReadAhead, v, 0) },
		},
		{
			Name: "require_checksums", Default: "false",
			Usage: "read only Parquet files whose pages have checksums",
			set:   func(s *Server, v value) error { return onOff(&s.RequireChecksums, v) },
		},
		{
			Name: "max_streams", Shape: "N",
			Usage: "how many streams may be open at once; further ones wait; 0 is no limit (default: one for each 16MiB of the memory budget, 8 to 4096)",
			set:   func(s *Server, v value) error { return count(&s.MaxStreams, v) },
		},
		{
			Name: "max_peer_share", Default: "75", Shape: "PERCENT",
			Usage: "the share that one client may use of the streams, and of the memory while others need it; a client is a subject, or a host if clients have no credentials",
			set:   func(s *Server, v value) error { return percent(&s.MaxPeerShare, v) },
		},
		{
			Name: "max_batch_bytes", Shape: "BYTES",
			Usage: "the most memory that one batch may use (default: an eighth of the memory budget, at most 256MiB)",
			set:   func(s *Server, v value) error { return size(&s.MaxBatchBytes, v) },
		},
		{
			Name: "share_batches", Shape: "BYTES",
			Usage: "how much of the memory budget may hold batches that streams share; 0 turns sharing off (default: an eighth of the memory budget, at most 1GiB)",
			set:   func(s *Server, v value) error { return sizeFrom(&s.ShareBatches, v, 0) },
		},
		{
			Name: "cache_memory", Shape: "BYTES",
			Usage: "how much of the memory budget may hold decoded columns for later streams, at most half, and as much again for build sides; it is released when streams need memory; 0 is none (default: a quarter of the memory budget)",
			set:   func(s *Server, v value) error { return sizeFrom(&s.CacheMemory, v, 0) },
		},
		{
			Name: "cache_dir", Shape: "FOLDER",
			Usage: "the folder on local disk that keeps decoded columns, also across restarts; created if its parent exists; no other server may use it (default: none are kept on disk)",
			set:   func(s *Server, v value) error { s.CacheDir = v.path(); return nil },
		},
		{
			Name: "cache_disk", Default: "32GiB", Shape: "BYTES",
			Usage: "how much of the disk of cache_dir may be used",
			set:   func(s *Server, v value) error { return size(&s.CacheDisk, v) },
		},
		{
			Name: "local_socket", Shape: "PATH",
			Usage: "a socket for clients on the same machine, which then read batches from shared memory; it is in a folder that only this user can enter, created if its parent exists (default: none)",
			set:   func(s *Server, v value) error { s.LocalSocket = v.path(); return nil },
		},
		{
			Name: "stall_timeout", Default: "2h", Shape: "TIME",
			Usage: "how long a client may read nothing before its stream ends",
			set:   func(s *Server, v value) error { return duration(&s.StallTimeout, v, time.Second) },
		},
		{
			Name: "drain", Default: "10s", Shape: "TIME",
			Usage: "how long running streams may continue after SIGTERM or SIGINT",
			set:   func(s *Server, v value) error { return duration(&s.Drain, v, 0) },
		},
		{
			Name: "ticket_keys", Shape: "FILE",
			Usage: "the key file that signs tickets, shared by replicas (default: a random key, on loopback only)",
			set:   func(s *Server, v value) error { s.TicketKeys = v.path(); return nil },
		},
		{
			Name: "ticket_lifetime", Default: "24h", Shape: "TIME",
			Usage: "how long a ticket is valid",
			set:   func(s *Server, v value) error { return duration(&s.TicketLifetime, v, time.Second) },
		},
		{
			Name: "ticket_renewal", Default: "720h", Shape: "TIME",
			Usage: "how long a ticket can be renewed after its first expiry",
			set:   func(s *Server, v value) error { return duration(&s.TicketRenewal, v, time.Second) },
		},
		{
			Name: "advertise", Shape: "URI", List: true,
			Usage: "the locations in tickets, such as grpc://host:port (default: the address that the client used)",
			set:   func(s *Server, v value) error { return locations(&s.Advertise, v) },
		},
		{
			Name: "metrics", Shape: "HOST:PORT",
			Usage: "the address of Prometheus metrics, at /metrics, and of /healthz for probes (default: off)",
			set:   func(s *Server, v value) error { return address(&s.Metrics, v, metricsPort) },
		},
		{
			Name: "health", Shape: "HOST:PORT",
			Usage: "the address of /healthz alone, for probes: without TLS and credentials on any address, since it only tells whether the server is ready (default: off)",
			set:   func(s *Server, v value) error { return address(&s.Health, v, healthPort) },
		},
		{
			Name: "pprof", Default: "false",
			Usage: "serve profiles at /debug/pprof/, on the metrics address",
			set:   func(s *Server, v value) error { return onOff(&s.Pprof, v) },
		},
		{
			Name: "trace", Shape: "URL",
			Usage: "the collector that gets traces of steps, by OTLP over gRPC: http://host:port, or https://host:port with TLS (default: none)",
			set:   func(s *Server, v value) error { return collector(&s.Trace, v) },
		},
		{
			Name: "trace_ca", Shape: "FILE",
			Usage: "the CA of the collector's certificate in PEM form, instead of the system's (default: none)",
			set:   func(s *Server, v value) error { s.TraceCA = v.path(); return nil },
		},
		{
			Name: "trace_every", Default: "100", Shape: "N",
			Usage: "which steps of a stream are traced: every Nth; clients that trace must use the same number",
			set:   func(s *Server, v value) error { return countFrom(&s.TraceEvery, v, 1) },
		},
		{
			Name: "trace_headers", Shape: "FILE",
			Usage: "headers of the messages to the collector, one on a line, such as authorization: Bearer TOKEN, in a file that only this user can read (default: none)",
			set:   func(s *Server, v value) error { s.TraceHeaders = v.path(); return nil },
		},
		{
			Name: "log_level", Default: "info", Shape: "LEVEL",
			Usage: "the lowest level that is logged: debug, info, warn or error",
			set:   func(s *Server, v value) error { return level(&s.LogLevel, v) },
		},
		{
			Name: "log_format", Default: "text", Shape: "FORMAT",
			Usage: "the form of log lines: text or json",
			set:   func(s *Server, v value) error { return oneOf(&s.LogFormat, v, "text", "json") },
		},
	}
}

// fault returns a fault of the value.
func (v value) fault(message string) fault.Field {
	return fault.Field{Field: v.from, Message: message, Line: v.line}
}

// path returns the text as a path, relative to the value's folder.
func (v value) path() string {
	if v.text == "" || filepath.IsAbs(v.text) {
		return v.text
	}
	return filepath.Join(v.dir, v.text)
}

// pathOrURL returns the text if it is a URL, and otherwise the result of path.
func (v value) pathOrURL() string {
	if strings.Contains(v.text, "://") {
		return v.text
	}
	return v.path()
}

// address parses an address on which the server listens. For an address without a port, the error
// suggests the given port.
func address(out *string, v value, port string) error {
	*out = v.text
	if v.text == "" {
		return nil
	}
	_, _, err := hostport.Split(v.text, port)
	if err != nil {
		return fmt.Errorf("%q %w", fault.RedactURI(v.text), err)
	}
	return nil
}

// Ports that errors suggest for an address without a port: the port of the default address, one for
// metrics, one for probes, and that of collectors.
const (
	defaultPort = "8815"
	metricsPort = "9100"
	healthPort  = "8816"
	// collectorPort is the port of OTLP over gRPC.
	collectorPort = "4317"
)

// SocketScheme begins the address of a Unix socket. Its absolute path follows.
const SocketScheme = "unix://"

// maxSocket is the longest path of a socket, in bytes, that every system supports.
const maxSocket = 103

// listening parses an address on which the server listens: a TCP address or a Unix socket.
func listening(out *string, v value) error {
	path, ok := strings.CutPrefix(v.text, SocketScheme)
	switch {
	case strings.HasPrefix(strings.TrimPrefix(v.text, "grpc+"), "unix:") && !ok:
		return fmt.Errorf("%q is not of the form host:port or unix:///path", fault.RedactURI(v.text))
	case !ok:
		return address(out, v, defaultPort)
	case !filepath.IsAbs(path) || strings.HasSuffix(path, "/"):
		return fmt.Errorf("%q is not of the form unix:///path", v.text)
	case len(path) > maxSocket:
		return fmt.Errorf("the path of %q has more than %d bytes, too many for a socket", v.text, maxSocket)
	}
	*out = v.text
	return nil
}

func onOff(out *bool, v value) (err error) {
	if *out, err = strconv.ParseBool(v.text); err != nil {
		return fmt.Errorf("%q is neither true nor false", v.text)
	}
	return nil
}

func count(out *int, v value) (err error) {
	if *out, err = strconv.Atoi(v.text); err != nil || *out < 0 {
		return fmt.Errorf("%q is not a number from 0 on", v.text)
	}
	return nil
}

func countFrom(out *int, v value, least int) error {
	if err := count(out, v); err != nil || *out < least {
		return fmt.Errorf("%q is not a number from %d on", v.text, least)
	}
	return nil
}

// collector parses the URL of a collector of traces.
func collector(out *Collector, v value) error {
	*out = Collector{}
	if v.text == "" {
		return nil
	}
	u, err := url.Parse(v.text)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.Path != "" && u.Path != "/" || u.RawQuery != "" || u.User != nil {
		return fmt.Errorf("%q is not of the form http://host:port or https://host:port; credentials belong in the file of trace_headers", fault.RedactURI(v.text))
	}
	if _, _, err := hostport.Split(u.Host, collectorPort); err != nil {
		return fmt.Errorf("the address of %q %w", fault.RedactURI(v.text), err)
	}
	*out = Collector{Address: u.Host, TLS: u.Scheme == "https"}
	return nil
}

func percent(out *int, v value) (err error) {
	if *out, err = strconv.Atoi(v.text); err != nil || *out < 1 || *out > 100 {
		return fmt.Errorf("%q is not a number from 1 to 100", v.text)
	}
	return nil
}

func duration(out *time.Duration, v value, minimum time.Duration) (err error) {
	if *out, err = time.ParseDuration(v.text); err != nil {
		return fmt.Errorf("%q is not a time such as 10s, 5m or 24h", v.text)
	}
	if *out < minimum {
		return fmt.Errorf("%s is less than %s", v.text, minimum)
	}
	return nil
}

func locations(out *[]string, v value) error {
	*out = nil
	for uri := range strings.SplitSeq(v.text, ",") {
		if uri = strings.TrimSpace(uri); uri == "" {
			continue
		}
		if strings.HasPrefix(uri, "grpc+unix:///") {
			*out = append(*out, uri)
			continue
		}
		u, err := url.Parse(uri)
		if err != nil || u.Host == "" || u.Scheme != "grpc" && u.Scheme != "grpc+tcp" && u.Scheme != "grpc+tls" {
			return fmt.Errorf("%q is not a location such as grpc://host:port", fault.RedactURI(uri))
		}
		if u.User != nil {
			return fmt.Errorf("%q names a user: locations are sent to clients unchanged; credentials are the clients' own", fault.RedactURI(uri))
		}
		if _, _, err := hostport.Split(u.Host, defaultPort); err != nil {
			return fmt.Errorf("%q cannot be a location, since its address %w", fault.RedactURI(uri), err)
		}
		*out = append(*out, uri)
	}
	return nil
}

func level(out *slog.Level, v value) error {
	var name string
	if err := oneOf(&name, v, "debug", "info", "warn", "error"); err != nil {
		return err
	}
	return out.UnmarshalText([]byte(name))
}

func oneOf(out *string, v value, names ...string) error {
	for _, name := range names {
		if strings.EqualFold(v.text, name) {
			*out = name
			return nil
		}
	}
	near := fault.Nearest(v.text, names)
	if near != "" {
		near = fmt.Sprintf(" (did you mean %q?)", near)
	}
	return fmt.Errorf("%q is none of %s%s", v.text, strings.Join(names, ", "), near)
}

// minMemory is the smallest budget that is accepted, in bytes.
const minMemory = 1 << 20

// minRead is the smallest limit of one read that is accepted, in bytes.
const minRead = 1 << 10

func size(out *int64, v value) error { return sizeFrom(out, v, minMemory) }

func sizeFrom(out *int64, v value, minimum int64) error {
	if v.text == "" {
		return nil
	}
	n, err := fault.ParseSize(v.text)
	if err != nil {
		return err
	}
	if _, err := strconv.ParseInt(v.text, 10, 64); err == nil && n < minimum {
		return fmt.Errorf("%s is %s: write a unit, as in %sGiB", v.text, fault.Count(n, "byte"), v.text)
	}
	if n < minimum {
		return fmt.Errorf("%s is less than %s", v.text, map[int64]string{minMemory: "1MiB", minRead: "1KiB"}[minimum])
	}
	*out = n
	return nil
}
