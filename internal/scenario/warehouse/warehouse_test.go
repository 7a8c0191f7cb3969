package warehouse_test

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"golang.org/x/sync/errgroup"

	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/scenario"
	"github.com/penstock/penstock/internal/scenario/warehouse"
	"github.com/penstock/penstock/loader"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// firstWorld lets a person try worlds that no earlier run has tried.
var firstWorld = flag.Uint64("first-world", 0, "seed of the first random world")

// shrinking bounds how many smaller worlds are written to find the smallest.
const shrinking = 400

// TestWorlds writes random worlds as real tables, of every format version and
// with every history, and reads them as the server does: the rows, their order
// and the counts are those of the same world in memory and of the oracle, or
// the world is refused, since it is unknown which of its rows were written first.
//
// spec: resolve-10, resolve-48, resolve-66, resolve-67, resolve-68, resolve-69, resolve-70, resolve-81, resolve-82, resolve-83, order-15, join-35, join-60
func TestWorlds(t *testing.T) {
	t.Parallel()
	const lanes = 2 // of worlds that are written and read at once
	worlds := few
	if os.Getenv("PENSTOCK_LONG") == "1" {
		worlds = 10_000
	}
	seen := make([]scenario.Coverage, lanes)
	group, stopped := errgroup.WithContext(context.Background())
	for lane := range lanes {
		seen[lane] = scenario.Coverage{}
		r, err := newRig(t.TempDir(), seen[lane])
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, r.Close()) })
		group.Go(func() error {
			for seed := lane; seed < worlds && stopped.Err() == nil; seed += lanes {
				if err := r.try(t, *firstWorld+uint64(seed)); err != nil { //nolint:gosec // it counts from 0
					return err
				}
			}
			return nil
		})
	}
	require.NoError(t, group.Wait())
	all := scenario.Coverage{}
	for _, s := range seen {
		all.Add(s)
	}
	report(t, all)
	require.Equal(t, worlds, all["worlds"])
	if *firstWorld != 0 {
		return // other seeds may lack some of these by chance
	}
	for _, what := range slices.Concat(covered, rare, stored()) {
		require.Positive(t, all[what], "too few worlds: %s", what)
	}
	require.Less(t, all["refused"], worlds/2, "too many worlds are refused")
}

// covered is what worlds must have had in them, and what came of them.
var covered = []string{
	"format 1", "format 2", "format 3", "format 1, then 2", "several commits", "several specs", "snapshots expired", "manifests merged", "pinned",
	"refused", "read: added", "read: default", "read: by names", "beside: promoted", "rows",
	"read: position deletes", "read: position deletes of a partition", "read: deletion vectors", "read: equality deletes",
	"read: partitions by names beyond ASCII",
	"shards end at the same step", "DataLoader workers take steps in turn",
}

// stored are the forms of columns in files that only many worlds have all of, in every role.
func stored() []string {
	var all []string
	if len(rare) == 0 {
		return nil
	}
	for _, form := range warehouse.AllStored() {
		for _, role := range []string{"training", "staging", "key", "filter"} {
			all = append(all, fmt.Sprintf("read: %s, stored as %s", role, form))
		}
	}
	return all
}

// report prints how many worlds were refused, and why.
func report(t *testing.T, all scenario.Coverage) {
	t.Helper()
	lines := []string{fmt.Sprintf("%d worlds on real files: %d read as they are in memory, %d refused", all["worlds"], all["worlds"]-all["refused"], all["refused"])}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if strings.HasPrefix(name, "refused: ") || strings.HasSuffix(name, "deletes") || strings.HasSuffix(name, "vectors") || strings.HasSuffix(name, "partition") || strings.HasPrefix(name, "read: stored as") || strings.HasPrefix(name, "read: partitions by ") {
			lines = append(lines, fmt.Sprintf("  %s %d", name, all[name]))
		}
	}
	t.Log(strings.Join(lines, "\n"))
}

// rig writes and reads one world after the other.
type rig struct {
	*warehouse.Warehouse
	seen scenario.Coverage
}

func newRig(dir string, seen scenario.Coverage) (*rig, error) {
	w, err := warehouse.New(dir)
	return &rig{w, seen}, err
}

// try compares one world. The error holds the smallest one that differs in
// the same way.
func (r *rig) try(t *testing.T, seed uint64) error {
	t.Helper()
	c := scenario.Generate(seed, 1+int(seed)%16, 1+int(seed)/16%16)
	difference, err := r.differs(c, seed, true)
	if err != nil || difference == (scenario.Difference{}) {
		return err
	}
	tries := 0
	small := c.Shrink(func(d *scenario.Case) bool {
		if tries++; tries > shrinking {
			return false
		}
		again, err := r.differs(d, seed, false)
		return err == nil && again.Kind == difference.Kind
	})
	last, err := r.differs(small, seed, false)
	if err != nil {
		return err
	}
	text, err := small.Text(fmt.Sprintf("Before the history of seed %d. %s.", seed, last.Kind))
	if err != nil {
		return err
	}
	path := filepath.Join(t.ArtifactDir(), c.Name+".txt")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		return err
	}
	return fmt.Errorf("%s: %s\n%s\nas a scenario file, kept as %s with -artifacts:\n\n%s", c.Name, last.Kind, last.Text, path, text)
}

// differs writes, reads and compares a world. All memory must come back.
func (r *rig) differs(c *scenario.Case, seed uint64, first bool) (scenario.Difference, error) {
	ctx := context.Background()
	made, err := r.Write(ctx, c, seed)
	if err != nil {
		return scenario.Difference{}, fmt.Errorf("%s cannot be written: %w", c.Name, err)
	}
	defer made.World.Release()
	mem, limit := memory.NewCheckedAllocator(batch.Default()), budget.New(1<<30)
	p := warehouse.Prediction{Pinned: seed%4 == 0}
	out := r.Folder(made).Compare(ctx, made.Case, made.World, p, loader.Options{Memory: mem, Budget: limit})
	if out.Difference == (scenario.Difference{}) && (mem.CurrentAlloc() != 0 || limit.Used() != 0) {
		out.Difference = scenario.Difference{Kind: "memory leaks", Text: fmt.Sprintf("%d bytes, %d reserved", mem.CurrentAlloc(), limit.Used())}
	}
	if first {
		r.seen.Add(out.Seen)
		r.seen.Add(made.Coverage(out))
		if p.Pinned {
			r.seen["pinned"]++
		}
	} else if out.Difference != (scenario.Difference{}) {
		out.Text += "\nhistories: " + made.String()
	}
	return out.Difference, r.Drop(ctx, made)
}
