package main

import "github.com/penstock/penstock/cmd/penstock/cmdline"

// serveGroups are the flags of serve as its help lists them. Every setting is in one group.
func serveGroups() []cmdline.FlagGroup {
	return []cmdline.FlagGroup{
		{Title: "General", Flags: []string{"config", "private", "help"}},
		{Title: "Listening", Flags: []string{"listen", "advertise", "local-socket"}},
		{Title: "TLS, tokens and rights", Flags: []string{"tls-cert", "tls-key", "tls-client-ca", "tokens", "jwt-issuer", "jwt-audience", "jwt-keys", "jwt-keys-max-age", "policy", "insecure"}},
		{Title: "Tickets", Flags: []string{"ticket-keys", "ticket-lifetime", "ticket-renewal"}},
		{Title: "Memory", Flags: []string{"memory", "cache-memory", "share-batches", "max-batch-bytes", "max-metadata"}},
		{Title: "Local disk", Flags: []string{"spool", "spool-limit", "cache-dir", "cache-disk"}},
		{Title: "Streams", Flags: []string{"max-streams", "max-peer-share", "stall-timeout", "drain"}},
		{Title: "Reading tables", Flags: []string{"storage-timeout", "require-checksums", "read-ahead", "read-size", "read-gap", "read-tail"}},
		{Title: "Logs and metrics", Flags: []string{"log-level", "log-format", "audit-log", "metrics", "pprof"}},
	}
}
