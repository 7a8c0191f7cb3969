package maintenance_test

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/maintenance"
	"github.com/penstock/penstock/loader/stage/stagetest"
)

// asPython runs a Python script and returns its output. The script's variable t is the table, as
// PyIceberg loads it.
func (r *rig) asPython(t *testing.T, script string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), stagetest.Python(t), "-c", `
import sys, warnings
warnings.simplefilter("ignore")
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.transforms import IdentityTransform
t = SqlCatalog("default", uri="sqlite:///" + sys.argv[1] + "/catalog.db").load_table("ml.history")
def rows():
    found = t.scan().to_arrow().to_pylist()
    return "\n".join(sorted(repr(sorted(row.items())) for row in found))
`+script, r.Dir).CombinedOutput() //nolint:gosec // the interpreter of the tests
	require.NoError(t, err, string(out))
	return string(out)
}

// In a table whose columns and partition spec changed, PyIceberg finds the same rows before and
// after a compaction. DuckDB finds them in the new files.
//
// spec: compact-1, compact-2, compact-3, compact-4
func TestPyIcebergFindsTheSameRows(t *testing.T) {
	for version := 2; version <= 3; version++ {
		r := newRig(t, stagetest.Unlimited, nil)
		r.plain(t, version)
		r.appends(t, 3)
		files := r.Listed(t, "")
		if version == 2 {
			r.ErasePositions(t, false, 0, files[0], files[1])
		} else {
			r.EraseByVector(t, files[1], 1)
		}
		if version == 2 { // PyIceberg cannot change tables of format version 3
			r.asPython(t, `
with t.update_schema() as u:
    u.rename_column("country", "nation")
    u.delete_column("items")
    u.add_column("rank", __import__("pyiceberg.types").types.IntegerType())
with t.update_spec() as u:
    u.add_field("day", IdentityTransform(), "day")
`)
			renamed := arrow.NewSchema([]arrow.Field{
				{Name: "id", Type: arrow.PrimitiveTypes.Int64},
				{Name: "day", Type: arrow.FixedWidthTypes.Date32},
				{Name: "nation", Type: arrow.BinaryTypes.String},
				{Name: "rank", Type: arrow.PrimitiveTypes.Int32},
			}, nil)
			for range 2 {
				r.Stage(t, dataset.TableWrite{Table: stagetest.History}, renamed, `[{"id": 1, "day": "2026-10-01", "nation": "IT", "rank": 3}, {"id": 5, "day": "2026-10-02", "nation": "IT", "rank": 4}]`)
			}
		}
		before := r.asPython(t, "print(rows())")
		want := 5
		if version == 2 {
			want = 8
		}
		require.Equal(t, want, strings.Count(before, "\n"), before)
		snapshot := r.current(t)
		out := r.compact(t, maintenance.Compaction{MinFiles: 2, AnyOrder: true})
		require.NotZero(t, out.Deleted)
		require.Equal(t, before, r.asPython(t, "print(rows())"))
		require.Contains(t, r.asPython(t, `
import duckdb
planned = list(t.scan().plan_files())
files = [p.file for p in planned]
assert {f.spec_id for f in files} == {t.spec().spec_id}, files
assert not any(p.delete_files for p in planned)
paths = [f.file_path.removeprefix("file://") for f in files]
print("rows", duckdb.sql(f"SELECT count(*), count(DISTINCT id) FROM read_parquet({paths!r}, union_by_name=true)").fetchall()[0])
`), "rows ("+map[int]string{2: "8, 3", 3: "5, 3"}[version]+")")

		r.Stage(t, dataset.TableWrite{Table: stagetest.History}, arrow.NewSchema([]arrow.Field{{Name: "id", Type: arrow.PrimitiveTypes.Int64}}, nil), `[{"id": 77}]`)
		require.Contains(t, r.asPython(t, "print(rows())"), "('id', 77)")
		restored := r.restore(t, maintenance.Restoration{Snapshot: snapshot})
		require.NotZero(t, restored.Rewritten)
		require.Equal(t, before, r.asPython(t, "print(rows())"))
	}
}
