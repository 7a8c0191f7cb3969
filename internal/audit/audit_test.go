package audit_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/audit"
	"github.com/penstock/penstock/internal/fault"
)

func noon() time.Time { return time.Date(2026, 10, 1, 12, 0, 0, 0, time.UTC) }

// opened opens a log of a file, and returns what the server's log gets.
func opened(t *testing.T, path string, clock func() time.Time) (*audit.Log, *bytes.Buffer) {
	t.Helper()
	var logged bytes.Buffer
	l, err := audit.Open(audit.Options{Path: path, Clock: clock, Logger: slog.New(slog.NewJSONHandler(&logged, nil))})
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	return l, &logged
}

// read returns the lines of a file.
func read(t *testing.T, path string) (out []audit.Line) {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	for line := range strings.Lines(string(text)) {
		var one audit.Line
		require.NoError(t, json.Unmarshal([]byte(line), &one), line)
		out = append(out, one)
	}
	return out
}

// spec: access-22
func TestLinesAreAppended(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	require.NoError(t, os.WriteFile(path, []byte("{}\n"), 0o600))
	l, logged := opened(t, path, noon)
	want := audit.Line{
		Event: audit.Stream, Call: "DoGet", Subject: "alice", Host: "10.0.0.1", Dataset: "home", Plan: "p", Tables: []audit.TableSnapshot{{Table: "ml.a", Snapshot: 7}},
		Columns: 3, Shard: "1/4", Rows: 10, Batches: 2, Bytes: 99, Seconds: 0.5, End: "ok",
	}
	var running sync.WaitGroup
	for range 20 {
		running.Go(func() { l.Add(want) })
	}
	running.Wait()
	lines := read(t, path)
	require.Len(t, lines, 21)
	want.Time = noon()
	for _, line := range lines[1:] {
		require.Equal(t, want, line)
	}
	require.Empty(t, logged.String())
	require.NoError(t, l.Err())
}

// spec: access-22
func TestFilesAreForOneUser(t *testing.T) {
	folder := t.TempDir()
	path := filepath.Join(folder, "audit.log")
	opened(t, path, noon)
	stat, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), stat.Mode().Perm())
	require.NoError(t, os.Chmod(path, 0o644))
	opened(t, path, noon) // others may read it if the operator has it so
	require.NoError(t, os.Chmod(path, 0o664))
	for _, wrong := range []string{path, folder, filepath.Join(folder, "none", "audit.log")} {
		_, err := audit.Open(audit.Options{Path: wrong, Clock: noon, Logger: slog.New(slog.DiscardHandler)})
		require.Equal(t, fault.Invalid, fault.KindOf(err), wrong)
		require.ErrorContains(t, err, "audit_log")
	}
}

// TestRotatedFilesAreOpenedAgain: a line goes to the file that has the path.
//
// spec: access-22
func TestRotatedFilesAreOpenedAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	l, _ := opened(t, path, noon)
	for range 3 {
		l.Add(audit.Line{Event: audit.Stream, End: "ok"})
		require.Len(t, read(t, path), 1)
		require.NoError(t, os.Rename(path, path+".1"))
	}
	require.NoError(t, os.WriteFile(path, nil, 0o600)) // as programs that rotate logs do
	l.Add(audit.Line{Event: audit.Stream, End: "ok"})
	require.Len(t, read(t, path), 1)
	require.NoError(t, os.Remove(path))
	l.Add(audit.Line{Event: audit.Stream, End: "ok"})
	require.Len(t, read(t, path), 1)
}

// TestFailuresAreKept: a line that cannot be written is in the server's log, and Err fails until one is written.
//
// spec: access-23
func TestFailuresAreKept(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "logs")
	require.NoError(t, os.Mkdir(folder, 0o700))
	path := filepath.Join(folder, "audit.log")
	l, logged := opened(t, path, noon)
	require.NoError(t, os.Rename(folder, folder+".gone"))
	l.Add(audit.Line{Event: audit.Stream, Subject: "alice", End: "ok"})
	require.Equal(t, fault.Unavailable, fault.KindOf(l.Err()))
	require.Contains(t, logged.String(), `\"subject\":\"alice\"`)
	require.NoError(t, os.Rename(folder+".gone", folder))
	l.Add(audit.Line{Event: audit.Stream, Subject: "bob", End: "ok"})
	require.NoError(t, l.Err())
	require.Len(t, read(t, path), 1)
}

// broken is a writer that fails.
type broken struct{ fails bool }

func (b *broken) Write(p []byte) (int, error) {
	if b.fails {
		return 0, errors.New("no room")
	}
	return len(p), nil
}

// spec: access-23
func TestStandardErrorFails(t *testing.T) {
	to := &broken{fails: true}
	l, err := audit.Open(audit.Options{Stderr: to, Clock: noon, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	l.Add(audit.Line{Event: audit.Stream})
	require.ErrorContains(t, l.Err(), "no room")
	to.fails = false
	l.Add(audit.Line{Event: audit.Stream})
	require.NoError(t, l.Err())
	require.NoError(t, l.Close())
}

// hanging is a writer that does not return before end is closed.
type hanging struct{ began, end chan struct{} }

func (h hanging) Write(p []byte) (int, error) {
	select {
	case h.began <- struct{}{}:
	default:
	}
	<-h.end
	return len(p), nil
}

// TestHangingDiskHoldsOneLine: other lines are lost, and logged, until it returns.
//
// spec: access-23
func TestHangingDiskHoldsOneLine(t *testing.T) {
	to := hanging{make(chan struct{}, 1), make(chan struct{})}
	l, err := audit.Open(audit.Options{Stderr: to, Clock: noon, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	l.Hurry(time.Millisecond)
	var running sync.WaitGroup
	running.Go(func() { l.Add(audit.Line{Event: audit.Stream}) })
	<-to.began
	for range 3 {
		l.Add(audit.Line{Event: audit.Stream})
		require.ErrorContains(t, l.Err(), "its disk hangs")
	}
	close(to.end)
	running.Wait()
	l.Add(audit.Line{Event: audit.Stream})
	require.NoError(t, l.Err())
}

// TestFloodsOfStrangersAreCounted: refusals without a subject have few lines, which count the rest; those with one have all.
//
// spec: access-24
func TestFloodsOfStrangersAreCounted(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	now := noon()
	l, _ := opened(t, path, func() time.Time { return now })
	for range 5000 {
		l.Add(audit.Line{Event: audit.Refusal, End: "unauthenticated"})
	}
	require.Len(t, read(t, path), 100)
	now = now.Add(time.Second)
	for range 5000 {
		l.Add(audit.Line{Event: audit.Refusal, End: "unauthenticated"})
	}
	require.Len(t, read(t, path), 110)
	for range 200 {
		l.Add(audit.Line{Event: audit.Refusal, Subject: "alice", End: "forbidden"})
		l.Add(audit.Line{Event: audit.Stream, End: "ok"})
	}
	require.Len(t, read(t, path), 510)
	require.NoError(t, l.Close())
	lines := read(t, path)
	require.Len(t, lines, 511)
	require.Equal(t, int64(10000), countOf(lines))
}

// countOf returns how many refusals without a subject some lines stand for.
func countOf(lines []audit.Line) (out int64) {
	for i, line := range lines {
		if line.Event != audit.Refusal || line.Subject != "" {
			continue
		}
		out += line.More
		if i < len(lines)-1 { // the last one is that of Close, and stands for others alone
			out++
		}
	}
	return out
}

func TestNoLogWritesNothing(t *testing.T) {
	var l *audit.Log
	l.Add(audit.Line{})
	require.NoError(t, l.Err())
	require.NoError(t, l.Close())
}
