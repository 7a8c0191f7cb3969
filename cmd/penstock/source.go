package main

import (
	"context"
	"encoding/json"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/spf13/cobra"

	"github.com/penstock/penstock/internal/fault"
)

// Variables of the environment that name what is read.
const (
	envConfig = "PENSTOCK_CONFIG"
	envURI    = "PENSTOCK_URI"
)

// listed is one dataset as a list shows it.
type listed struct {
	name    string
	rows    int64 // -1: not known before reading
	schema  *arrow.Schema
	staging []string
	err     *fault.Error // why it cannot be read; nil if it can
}

// report is what a stream says of itself at its end.
type report struct {
	Rows     int64             `json:"rows"`
	Requests int64             `json:"requests"` // of Rows, where batches are of requests
	Staging  map[string]counts `json:"staging"`
}

// counts is how the training rows matched one staging table.
type counts struct {
	Rows    int64 `json:"rows"`
	Matched int64 `json:"matched"`
}

// parseReport reads the JSON of a report.
func parseReport(text []byte) (r report, err error) {
	if err = json.Unmarshal(text, &r); err != nil {
		err = fault.New(fault.Internal, "read the stream's report: %w", err)
	}
	return r, err
}

// add joins the report of another shard.
func (r *report) add(other report) {
	r.Rows += other.Rows
	r.Requests += other.Requests
	if r.Staging == nil {
		r.Staging = map[string]counts{}
	}
	for name, c := range other.Staging {
		sum := r.Staging[name]
		r.Staging[name] = counts{Rows: sum.Rows + c.Rows, Matched: sum.Matched + c.Matched}
	}
}

// shards reads streams one after the other. A batch is valid until the next
// call of Next or Release.
type shards struct {
	schema  *arrow.Schema
	grouped bool                      // a row is a request
	open    []func() (*stream, error) // those that are not begun
	at      *stream                   // nil: none is open
	total   report
	err     error
}

// Next moves to the next batch that has rows.
func (s *shards) Next() bool {
	for s.err == nil {
		if s.at == nil {
			if len(s.open) == 0 {
				return false
			}
			if s.at, s.err = s.open[0](); s.err != nil {
				s.at = nil
				return false
			}
			s.open = s.open[1:]
		}
		if s.at.Next() {
			if s.at.RecordBatch().NumRows() > 0 {
				return true
			}
			continue
		}
		s.finish()
	}
	return false
}

// finish ends the stream at hand, which has no more batches.
func (s *shards) finish() {
	if s.err = s.at.Err(); s.err == nil {
		var r report
		if r, s.err = s.at.Report(); s.err == nil {
			s.total.add(r)
		}
	}
	s.Release()
}

// Release ends the stream that is open, if any.
func (s *shards) Release() {
	if s.at != nil {
		s.at.Release()
		s.at = nil
	}
}

// configFlag adds --config.
func configFlag(c *cobra.Command) *string {
	return textFlag(c, "config,c", "FILE", "the config file ("+envConfig+")")
}

// sourceFlags are --config and --uri, of which one is needed.
type sourceFlags struct {
	config, uri *string
}

func newSourceFlags(c *cobra.Command) sourceFlags {
	return sourceFlags{
		config: configFlag(c),
		uri:    textFlag(c, "uri,u", "URI", "a server to ask, as grpc://host:port ("+envURI+")"),
	}
}

// source makes a client of what the flags name, or else the environment.
func (p process) source(ctx context.Context, f sourceFlags) (*client, error) {
	file, uri := *f.config, *f.uri
	if file != "" && uri != "" {
		return nil, usage("--config reads in process and --uri asks a server: give one of them")
	}
	if file == "" && uri == "" {
		file, uri = p.orEnv("", envConfig), p.orEnv("", envURI)
	}
	switch {
	case uri != "" && file != "":
		return nil, usage("%s and %s are both set: choose with --config or --uri", envConfig, envURI)
	case uri != "":
		return dial(uri)
	case file != "":
		return p.openLocal(ctx, file)
	}
	return nil, usage("give --config FILE to read in process, or --uri grpc://host:port to ask a server")
}

// orEnv returns a flag's text, or else a variable's.
func (p process) orEnv(flag, name string) string {
	if flag != "" || p.env == nil {
		return flag
	}
	text, _ := p.env(name)
	return text
}
