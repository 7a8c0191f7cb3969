package statustext_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/cmd/penstock/statustext"
	"github.com/penstock/penstock/flight"
)

func text(t *testing.T, now flight.ServerStatus, before *flight.ServerStatus) string {
	t.Helper()
	var b strings.Builder
	require.NoError(t, statustext.Write(&b, now, before))
	return b.String()
}

func everything() flight.ServerStatus {
	return flight.ServerStatus{
		V: 1, Version: "0.1.0", UptimeMS: 7_384_000, All: true,
		Memory: &flight.MemoryStatus{Limit: 8 << 30, Used: 3 << 30, Idle: 1 << 30, InFlight: 12 << 20, Peak: 5 << 30},
		Slots:  &flight.SlotStatus{Limit: 64, PerClient: 32, Taken: 2, Kept: 1, Waiting: 4},
		Plans:  &flight.PlanStatus{Limit: 4, Running: 1},
		Planning: []flight.PlanningStatus{
			{Dataset: "home", Job: "sweep-8", Subject: "ranker", OpenMS: 65_000, Waiting: "tables"}, {Inline: true, OpenMS: 999, Waiting: "slot"}, {Dataset: "home", Waiting: "files"}, {Dataset: "home"},
		},
		Cache:  &flight.CacheStatus{Limit: 4 << 30, Bytes: 1536 << 10, Files: 1, BuildSides: 3, BuildSideBytes: 500, DiskLimit: 10 << 30},
		Config: &flight.ConfigStatus{Applied: 1, Refused: 1, Last: time.Date(2026, 10, 1, 12, 0, 0, 0, time.UTC), Error: "two\nlines"},
		Streams: []flight.StreamStatus{
			{
				ID: "a", Lanes: 1, Subject: "ranker", Job: "sweep-7", Dataset: "home", Shard: flight.ShardStatus{Index: 1, Of: 4}, OpenMS: 10_000, Rows: 50_000, RowsTotal: 1, Step: 25, Steps: 100,
				Bytes: 10 << 20, Mapped: 10 << 20, Way: "receiver", Waiting: "trainer", Waited: flight.WaitedTime{Trainer: 5000, Storage: 1000, Memory: 99},
			},
			{ID: "b", Inline: true, Shard: flight.ShardStatus{Of: 1}, OpenMS: 90_000, RowsTotal: -1, Steps: -1, Parked: true, Waiting: "trainer"},
			{ID: "c", Lanes: 1, Dataset: "home", Shard: flight.ShardStatus{Of: 1}, Rows: 30, RowsTotal: 60, Steps: -1},
		},
	}
}

// TestOneScreen compares the whole text, and what a client without the right does not see.
func TestOneScreen(t *testing.T) {
	t.Parallel()
	require.Equal(t, `penstock 0.1.0, up for 2h03m, 3 streams
memory  3.0 GiB of 8.0 GiB in use, 1.0 GiB of it idle, 12.0 MiB in flight; at most 5.0 GiB so far
slots   2 of 64 taken, 1 kept, 4 waiting; one client may have 32
plans   1 being made, 0 waiting
        home, sweep-8, ranker: for 1m05s, waits for catalogs and metadata files
        (inline): for 0s, waits for a slot
        home: for 0s, waits for lists of files
        … 1 more: --json has all
cache   1.5 MiB of 4.0 GiB in 1 file, 3 build sides of 500 B; on disk 0 B of 10.0 GiB
config  not in use as it is on disk; used again 1 time, refused 1 time
        refused at 12:00:00: two lines

JOB      SUBJECT  DATASET   SHARD  OPEN   ROWS   DONE  ROWS/S  BYTES/S  WAY       NOW                WAITED FOR                LIMIT
sweep-7  ranker   home      1/4    10s    50000  25%   5000    2.0 MiB  receiver  waits for trainer  trainer 50%, storage 10%  trainer 50%
-        -        (inline)  0/1    1m30s  0      -     0       0 B      -         parked             -                         -
-        -        home      0/1    0s     30     50%   -       -        -         works              -                         -

trainer: the client has not taken the last batch: the server is faster than the training loop. To change it: make the training loop faster; the server needs nothing
`, text(t, everything(), nil))
	own := flight.ServerStatus{V: 1, Version: "0.1.0", UptimeMS: 200_000_000}
	require.Equal(t, "penstock 0.1.0, up for 2d07h, 0 streams\n\nonly this client's own streams: the others need a rule of the policy with allow: [status]\n", text(t, own, nil))
}

// TestRatesAreThoseBetweenTwoAnswers has a stream whose second interval differs from its first.
func TestRatesAreThoseBetweenTwoAnswers(t *testing.T) {
	t.Parallel()
	before, now := everything(), everything()
	now.Streams = now.Streams[:1]
	now.Streams[0].OpenMS, now.Streams[0].Rows, now.Streams[0].Waited.Memory = 12_000, 50_200, 1099
	require.Contains(t, text(t, now, &before), "sweep-7  ranker   home     1/4    12s   50200  25%   100     0 B      receiver  waits for trainer  memory 50%  memory 50%\n")
}

// TestScreensAreBounded has more streams than one screen shows.
func TestScreensAreBounded(t *testing.T) {
	t.Parallel()
	s := everything()
	for range 100 {
		s.Streams = append(s.Streams, s.Streams[0])
	}
	got := text(t, s, nil)
	require.LessOrEqual(t, strings.Count(got, "\n"), 40)
	require.Contains(t, got, "… 83 more: --json has all\n")
}
