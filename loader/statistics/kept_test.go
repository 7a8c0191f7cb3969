package statistics_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/cache/disk"
	"github.com/penstock/penstock/internal/cores"
	"github.com/penstock/penstock/internal/digest/digesttest"
	"github.com/penstock/penstock/internal/store"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/stage/stagetest"
	"github.com/penstock/penstock/loader/statistics"
)

// keeping is a rig with a folder of kept parts.
type keeping struct {
	*stagetest.Rig
	folder string
	rows   int64 // of samples
	limit  int64 // of the folder, in bytes
	kept   int64 // the maximum size of the sample of a part that is kept, in bytes
}

// newKeeping returns a rig whose table has a file for each of the given days.
func newKeeping(t *testing.T, days int) *keeping {
	t.Helper()
	k := &keeping{Rig: stagetest.New(t, stagetest.Unlimited, nil), folder: filepath.Join(t.TempDir(), "cache"), rows: statistics.SampleRows, limit: 1 << 30, kept: statistics.MaxKept}
	k.Daily(t)
	for day := range days {
		k.add(t, day, 10)
	}
	return k
}

// add adds rows of a day in one file.
func (k *keeping) add(t *testing.T, day, rows int) {
	t.Helper()
	var text strings.Builder
	for i := range rows {
		fmt.Fprintf(&text, `,{"id": 1, "day": "2026-10-%02d", "items": [%d], "country": "C%d"}`, 1+day, i, i*day%7)
	}
	k.Stage(t, dataset.TableWrite{Table: stagetest.History}, stagetest.Schema(), "["+text.String()[1:]+"]")
}

// tier opens the folder of kept parts. The caller closes it.
func (k *keeping) tier(t *testing.T) *disk.Tier {
	t.Helper()
	tier, err := disk.Open(t.Context(), disk.Options{
		Folder: k.folder, Name: "statistics", Limit: k.limit, Budget: k.Budget, Calls: store.NewCalls(store.Options{Timeout: time.Minute}), Clock: time.Now,
	})
	require.NoError(t, err)
	return tier
}

// described is the result of a call, as JSON, and the data files that it read.
type described struct {
	json  string
	files map[string]bool
}

// describe describes the table, with kept parts unless they are turned off.
func (k *keeping) describe(t *testing.T, kept bool, request statistics.Request) described {
	t.Helper()
	held, err := k.Budget.Reserve("history", 0)
	require.NoError(t, err)
	defer held.Release()
	request.History, err = k.Tables.History(t.Context(), stagetest.History, held)
	require.NoError(t, err)
	o := statistics.Options{Tables: &k.Tables, Read: k.Tables.Read(k.Budget), Budget: k.Budget, Cores: cores.New(3)}
	used, done := k.Budget.InUse(), func() {}
	if kept {
		tier := k.tier(t)
		done = func() { tier.Close(context.WithoutCancel(t.Context())) }
		o.Kept = tier
	}
	d := statistics.New(o)
	d.SetLimits(k.rows, k.kept)
	k.Files.Reset()
	result, err := d.Describe(t.Context(), request)
	done()
	require.NoError(t, err)
	require.Equal(t, used, k.Budget.InUse(), "nothing stays reserved")
	out := described{files: map[string]bool{}}
	for _, r := range k.Files.Requests() {
		if strings.HasSuffix(r.Location, ".parquet") {
			out.files[r.Location] = true
		}
	}
	text, err := json.Marshal(result)
	require.NoError(t, err)
	out.json = string(text)
	return out
}

// same describes the table with and without kept parts, and returns the files that were read with kept parts.
func (k *keeping) same(t *testing.T, request statistics.Request) map[string]bool {
	t.Helper()
	with, without := k.describe(t, true, request), k.describe(t, false, request)
	require.Equal(t, without.json, with.json)
	return with.files
}

// A second call reads no data file, and a call after an append reads only the new file. Each set of columns has parts of its own.
//
// spec: stats-11
func TestKeptPartsAreNotReadAgain(t *testing.T) {
	k := newKeeping(t, 20)
	require.Len(t, k.same(t, statistics.Request{}), 20)
	require.Empty(t, k.same(t, statistics.Request{}))
	require.Empty(t, k.same(t, statistics.Request{NoValues: true, Exact: true}))
	k.add(t, 20, 10)
	require.Len(t, k.same(t, statistics.Request{}), 1)
	require.Empty(t, k.same(t, statistics.Request{}))
	require.Len(t, k.same(t, statistics.Request{Columns: []string{"id"}}), 21)
	require.Empty(t, k.same(t, statistics.Request{Columns: []string{"id"}}))
}

// The rows that deletes leave of a file are other rows: only files with new deletes are read again.
//
// spec: stats-11
func TestDeletesMakeOtherParts(t *testing.T) {
	for name, remove := range map[string]func(k *keeping, of catalog.File){
		"positions": func(k *keeping, of catalog.File) { k.ErasePositions(t, true, 2, of) },
		"values":    func(k *keeping, of catalog.File) { k.EraseValues(t, of, 1) },
	} {
		t.Run(name, func(t *testing.T) {
			k := newKeeping(t, 3)
			require.Len(t, k.same(t, statistics.Request{}), 3)
			remove(k, k.Listed(t, "")[1])
			read := k.same(t, statistics.Request{})
			require.True(t, read[k.Listed(t, "")[1].Location], "%v", read)
			require.False(t, read[k.Listed(t, "")[0].Location], "%v", read)
			require.Empty(t, k.same(t, statistics.Request{}))
		})
	}
}

// A damaged file of the cache is read anew from its data file.
//
// spec: stats-12
func TestDamagedPartsAreReadAnew(t *testing.T) {
	k := newKeeping(t, 4)
	require.Len(t, k.same(t, statistics.Request{}), 4)
	chunks, err := filepath.Glob(filepath.Join(k.folder, "statistics", "*.chunk"))
	require.NoError(t, err)
	require.Len(t, chunks, 4)
	for _, path := range chunks {
		content, err := os.ReadFile(path) //nolint:gosec // a test's own folder
		require.NoError(t, err)
		content[len(content)/2] ^= 1
		require.NoError(t, os.WriteFile(path, content, 0o600))
	}
	require.Len(t, k.same(t, statistics.Request{}), 4)
	require.Empty(t, k.same(t, statistics.Request{}))
}

// Parts that do not fit on the disk, or have too many bytes, are read each time.
//
// spec: stats-12, stats-13
func TestPartsWithoutRoomAreReadAgain(t *testing.T) {
	k := newKeeping(t, 4)
	k.limit = 4 << 10
	require.Len(t, k.same(t, statistics.Request{}), 4)
	require.Len(t, k.same(t, statistics.Request{}), 4)
	k = newKeeping(t, 4)
	k.kept = 500
	k.add(t, 4, 100)
	require.Len(t, k.same(t, statistics.Request{}), 5)
	require.Len(t, k.same(t, statistics.Request{}), 1, "the samples of the other parts are small")
}

// Whatever is added, deleted and described before, kept parts do not change a result. The level of the sample rises with the
// number of rows, and falls if the statistics are those of an earlier snapshot.
//
// spec: stats-12
func TestKeptPartsNeverChangeAResult(t *testing.T) {
	for seed := range uint64(3) {
		rng := rand.New(rand.NewPCG(seed, 9))
		k := newKeeping(t, 1)
		k.rows = 24
		for range 12 {
			switch files := k.Listed(t, ""); rng.IntN(4) {
			case 0, 1:
				k.add(t, rng.IntN(3), 1+rng.IntN(40))
			case 2:
				k.ErasePositions(t, true, 0, files[rng.IntN(len(files))])
			case 3:
				snapshots := k.Load(t).Metadata().Snapshots()
				k.same(t, statistics.Request{At: strconv.FormatInt(snapshots[rng.IntN(len(snapshots))].SnapshotID, 10), Exact: rng.IntN(3) == 0})
			}
			if rng.IntN(2) == 0 {
				k.same(t, statistics.Request{})
			}
		}
	}
}

func TestEachFieldOfAnIdentityCounts(t *testing.T) {
	digesttest.EveryFieldCounts(t, statistics.Identity(t))
}
