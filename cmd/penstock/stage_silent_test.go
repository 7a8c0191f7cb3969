package main

import (
	"context"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// silent is a standard input whose writer writes nothing and does not end.
type silent struct {
	began func() // called at the first read
	once  sync.Once
	ended chan struct{}
}

// Read implements io.Reader. It blocks until the test ends.
func (s *silent) Read([]byte) (int, error) {
	s.once.Do(s.began)
	<-s.ended
	return 0, io.EOF
}

// A signal ends a stage that waits for standard input, before and after the first bytes.
//
// spec: stage-154
func TestStagesOfSilentInputAreInterrupted(t *testing.T) {
	l := stagingLake(t)
	for _, c := range []struct{ format, first string }{{"arrow", ""}, {"csv", ""}, {"csv", "req_id,country\n1,CH\n"}} {
		ctx, cancel := context.WithCancel(t.Context())
		input := &silent{began: cancel, ended: make(chan struct{})}
		var said strings.Builder
		p := process{terminal: terminal{stdin: io.MultiReader(strings.NewReader(c.first), input), stdout: io.Discard, stderr: &said}, environment: environment{clock: time.Now}}
		code := p.run(ctx, []string{
			"stage", "features.history", "-", "--input-format", c.format, "--schema", "req_id: long, country: string",
			"--key", "req_id", "--buckets", "2", "--config", l.config,
		})
		close(input.ended)
		require.Equal(t, exitInterrupted, code, "%v: %s", c, said.String())
		require.Contains(t, said.String(), "interrupted")
	}
}
