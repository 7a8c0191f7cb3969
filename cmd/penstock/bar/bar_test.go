package bar_test

import (
	"bytes"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/penstock/penstock/cmd/penstock/bar"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const erased = "\r\x1b[K"

// last returns what a terminal shows on the line that was written to.
func last(written string) string { return written[strings.LastIndex(written, erased)+len(erased):] }

// screen is a terminal to which a bar and a test write.
type screen struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write implements io.Writer.
func (s *screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(p)
}

// String returns everything that was written.
func (s *screen) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// spec: change-12
func TestBar(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out screen
		line := bar.NewLine(&out, func() int { return 200 })
		b := bar.Start(line, time.Now)
		at := func(d time.Duration) string {
			time.Sleep(d)
			synctest.Wait()
			return last(out.String())
		}
		b.Set(bar.State{Title: "stage a", Step: "keys"})
		time.Sleep(900 * time.Millisecond)
		synctest.Wait()
		require.Empty(t, out.String(), "a short command draws nothing")
		require.Equal(t, "stage a: keys  1s", at(200*time.Millisecond))

		b.Set(bar.State{Title: "stage a", Step: "read", All: 4_000_000, Unit: "rows"})
		time.Sleep(4 * time.Second)
		b.Set(bar.State{Title: "stage a", Step: "read", Done: 1_000_000, All: 4_000_000, Unit: "rows", Detail: "1.0 GiB"})
		require.Equal(t, "stage a: read   25 % [#####...............]  1,000,000 of 4,000,000 rows  1.0 GiB  244 k rows/s  12s left", at(200*time.Millisecond))
		b.Set(bar.State{Title: "stage a", Step: "read", Done: 5_000_000, All: 4_000_000, Unit: "rows"})
		require.Contains(t, at(200*time.Millisecond), "100 % [####################]  5,000,000 of 4,000,000 rows", "a wrong total")
		b.Set(bar.State{Title: "stage a", Step: "write", Done: 7, Unit: "files"})
		require.Equal(t, "stage a: write  7 files  5s", at(200*time.Millisecond), "the rate begins with the step")
		b.Set(bar.State{Title: "stage a", Step: "write", Done: 10, Unit: "files"})
		require.Equal(t, "stage a: write  10 files  2.3 files/s  6s", at(1200*time.Millisecond))

		_, err := io.WriteString(line.Before(&out), "a note\n")
		require.NoError(t, err)
		require.True(t, strings.HasSuffix(out.String(), erased+"a note\n"), "a note erases the bar")
		require.Contains(t, at(200*time.Millisecond), "10 files")
		b.End()
		require.Empty(t, last(out.String()), "the end erases the bar")
		before := len(out.String())
		_, err = io.WriteString(line.Before(&out), "result\n")
		require.NoError(t, err)
		require.Equal(t, "result\n", out.String()[before:])
	})
}

func TestBarFitsItsLine(t *testing.T) {
	for width, want := range map[int]int{12: 11, 0: 79, 500: 104} {
		synctest.Test(t, func(t *testing.T) {
			var out screen
			b := bar.Start(bar.NewLine(&out, func() int { return width }), time.Now)
			defer b.End()
			b.Set(bar.State{Title: strings.Repeat("ü", 100)})
			time.Sleep(1200 * time.Millisecond)
			synctest.Wait()
			require.Len(t, []rune(last(out.String())), want)
		})
	}
}
