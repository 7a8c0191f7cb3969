package exchange_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/scenario"
	"github.com/penstock/penstock/internal/scenario/exchange"
	"github.com/penstock/penstock/internal/scenario/warehouse"
	"github.com/penstock/penstock/loader"
)

// firstWorld lets a person try worlds that no earlier run has tried.
var firstWorld = flag.Uint64("first-world", 0, "seed of the first random world")

// interpreter returns the path of a writer's Python. If it does not exist, the test is skipped, or
// fails in CI.
func interpreter(t *testing.T, variable string) string {
	t.Helper()
	python := os.Getenv(variable)
	if python == "" {
		require.Empty(t, os.Getenv("CI"), "CI must set %s; make test-go does", variable)
		t.Skipf("%s names no Python to write tables with; make test-go sets it", variable)
	}
	return python
}

// TestPyIcebergWorlds reads random worlds that PyIceberg wrote: every row, in
// order.
func TestPyIcebergWorlds(t *testing.T) {
	t.Parallel()
	worlds(t, exchange.PyIceberg(interpreter(t, "PENSTOCK_PYTHON"), filepath.Join(root(t), "tools", "worlds", "pyiceberg_write.py")), thorough(few, 400))
}

// fewest is the number of worlds that contain every kind of partitioning.
const fewest = 25

// thorough returns the number of worlds, which is greater in long runs.
func thorough(short, long int) int {
	if os.Getenv("PENSTOCK_LONG") == "" {
		return short
	}
	return long
}

// TestSparkWorlds reads random worlds that Spark wrote, as TestPyIcebergWorlds
// does. Spark takes seconds for each, and Java: only long runs have them.
func TestSparkWorlds(t *testing.T) {
	t.Parallel()
	if os.Getenv("PENSTOCK_LONG") == "" {
		t.Skip("Spark writes worlds in long runs, with PENSTOCK_LONG=1")
	}
	worlds(t, exchange.Spark(interpreter(t, "PENSTOCK_SPARK_PYTHON"), filepath.Join(root(t), "tools", "worlds", "spark_write.py")), 25)
}

func root(t *testing.T) string {
	t.Helper()
	folder, err := filepath.Abs(filepath.Join("..", "..", ".."))
	require.NoError(t, err)
	return folder
}

// tells returns the number of a case's rows, and whether the rows depend on the order of the
// commits.
func tells(t *testing.T, c *scenario.Case) (rows int, ordered bool) {
	t.Helper()
	expect := func(c *scenario.Case) []string {
		w, err := c.Make()
		require.NoError(t, err)
		defer w.Release()
		texts := scenario.Texts(c.Expect(w).Rows)
		slices.Sort(texts)
		return texts
	}
	turned := c.Clone()
	slices.Reverse(turned.Training.Commits)
	for i := range turned.Staging {
		slices.Reverse(turned.Staging[i].Commits)
	}
	given := expect(c)
	return len(given), !slices.Equal(given, expect(turned))
}

// worlds writes a number of worlds with a writer, and reads each. All worlds have rows. In a third
// of them, the order of commits matters, which is rare in random worlds.
func worlds(t *testing.T, w exchange.Writer, n int) {
	t.Helper()
	var folders []*exchange.Folder
	refused, telling := map[string]int{}, 0
	for seed := *firstWorld; len(folders) < n; seed++ {
		c := scenario.Generate(seed, 1+int(seed)%16, 1+int(seed)/16%16)
		if why := w.Takes(c); why != "" {
			refused[why]++
			continue
		}
		switch rows, ordered := tells(t, c); {
		case rows == 0:
			continue
		case ordered:
			telling++
		case len(folders)-telling >= n-n/3:
			continue
		}
		dir := filepath.Join(t.TempDir(), strconv.FormatUint(seed, 10))
		require.NoError(t, os.Mkdir(dir, 0o755))
		f, err := exchange.Make(dir, c, w, seed)
		require.NoError(t, err)
		t.Cleanup(f.Release)
		folders = append(folders, f)
	}
	require.NoError(t, w.Write(context.Background(), folders))
	seen := scenario.Coverage{}
	for _, f := range folders {
		world, err := f.World()
		require.NoError(t, err)
		lies := warehouse.Folder{Dir: f.Dir, Catalog: "default"}
		out := lies.Compare(context.Background(), f.Case, world, warehouse.Prediction{}, loader.Options{})
		world.Release()
		seen.Add(out.Seen)
		seen.Add(f.Case.Layouts)
		for _, what := range f.Partitioned() {
			seen["partitioned by "+what]++
		}
		if f.ReadsDefaults() {
			seen["reads a default"]++
		}
		if out.Difference != (scenario.Difference{}) {
			t.Errorf("%s: %s\n%.2000s", f.Case.Name, out.Kind, out.Text)
		}
	}
	if *firstWorld == 0 {
		covers(t, w, n, seen)
	}
	t.Logf("%s wrote %d worlds, with %d files without field ids; %d read a default; it was not asked for others: %v", w.Name, n, seen["add_files"], seen["reads a default"], refused)
}

// covers checks that the worlds from the first seed on have every property that they are meant to have. Other seeds may lack
// some by chance.
func covers(t *testing.T, w exchange.Writer, n int, seen scenario.Coverage) {
	t.Helper()
	for _, format := range w.Formats {
		require.Positive(t, seen[fmt.Sprintf("format %d", format)], "no table of format version %d", format)
	}
	for _, what := range []string{"append", "delete", "spec", "upgrade", "add_column", "duplicates first", "duplicates last", "duplicates all", "dropped by distinct"} {
		require.Positive(t, seen[what], "no world holds: %s", what)
	}
	if n < fewest { // the race detector leaves time for fewer
		return
	}
	for _, what := range []string{"decimals", "names beyond ASCII"} {
		require.Positive(t, seen["partitioned by "+what], "no table is partitioned by %s", what)
	}
	if !w.Once {
		require.Positive(t, seen["partitioned by decimals of one type"], "no table has two partition fields of one decimal type")
	}
	if w.Adds {
		require.Positive(t, seen["add_files"], "no world has files without field ids")
	}
	if w.Defaults {
		require.Positive(t, seen["reads a default"], "no world reads a default")
	}
}
