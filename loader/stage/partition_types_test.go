package stage_test

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/extensions"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/stage"
	"github.com/penstock/penstock/loader/stage/stagetest"
)

// pairs returns pairs of columns: the type and a value of each.
func pairs() map[string][2]struct {
	of    arrow.DataType
	value string
} {
	type one = struct {
		of    arrow.DataType
		value string
	}
	short, long := one{&arrow.FixedSizeBinaryType{ByteWidth: 2}, `"AAE="`}, one{&arrow.FixedSizeBinaryType{ByteWidth: 16}, `"AAECAwQFBgcICQoLDA0ODw=="`}
	id := one{extensions.NewUUIDType(), `"f81d4fae-7dec-11d0-a765-00a0c91e6bf6"`}
	money := one{&arrow.Decimal128Type{Precision: 9, Scale: 2}, `"1.25"`}
	return map[string][2]one{
		"two widths": {short, long}, "fixed and uuid": {long, id}, "uuid and fixed": {id, short}, "decimal and fixed": {money, short}, "uuid and decimal": {id, money},
	}
}

// Tables partitioned by two columns of fixed-length values can be written, listed, replaced, and
// read by PyIceberg.
//
// spec: stage-83
func TestPartitionsOfFixedLengths(t *testing.T) {
	interpreter := stagetest.Python(t)
	var dirs, want []string
	for name, of := range pairs() {
		r := stagetest.New(t, stagetest.Unlimited, nil)
		fields := []arrow.Field{
			{Name: "id", Type: arrow.PrimitiveTypes.Int64, Nullable: true}, {Name: "a", Type: of[0].of, Nullable: true}, {Name: "b", Type: of[1].of, Nullable: true},
		}
		request := stagetest.Create()
		request.Partition = []string{"a", "b"}
		text := `[{"id": 1, "a": ` + of[0].value + `, "b": ` + of[1].value + `}, {"id": 2, "a": null, "b": ` + of[1].value + `}]`
		r.Stage(t, request, arrow.NewSchema(fields, nil), text)
		before := r.Listed(t, "")
		require.Len(t, before, 2, name)
		request.Mode = dataset.WriteReplace
		out := r.Stage(t, request, arrow.NewSchema(fields, nil), text)
		require.Equal(t, 2, out.Removed, name)
		for i, f := range r.Listed(t, "") {
			require.Len(t, f.Partition, 3)
			require.ElementsMatch(t, f.Partition, before[i].Partition, name)
		}
		dirs, want = append(dirs, r.Dir), append(want, "2 1")
	}
	got, err := exec.CommandContext(t.Context(), interpreter, append([]string{"-c", `
import sys
from pyiceberg.catalog.sql import SqlCatalog
for folder in sys.argv[1:]:
    t = SqlCatalog("default", uri="sqlite:///" + folder + "/catalog.db").load_table("ml.history")
    print(t.scan().to_arrow().num_rows, len(list(t.scan(row_filter="a is null").plan_files())))
`}, dirs...)...).CombinedOutput() //nolint:gosec // the interpreter of the tests
	require.NoError(t, err, string(got))
	require.Equal(t, want, strings.Split(strings.TrimSpace(string(got)), "\n"))
}

// spec: stage-83
func TestPartitionsOfEqualFixedLengthsAreRefused(t *testing.T) {
	for text, of := range map[string]arrow.DataType{
		"decimals":          &arrow.Decimal128Type{Precision: 9, Scale: 2},
		"uuids":             extensions.NewUUIDType(),
		"values of 4 bytes": &arrow.FixedSizeBinaryType{ByteWidth: 4},
	} {
		r := stagetest.New(t, stagetest.Unlimited, nil)
		fields := arrow.NewSchema([]arrow.Field{
			{Name: "id", Type: arrow.PrimitiveTypes.Int64, Nullable: true}, {Name: "a", Type: of, Nullable: true}, {Name: "b", Type: of, Nullable: true},
		}, nil)
		request := stagetest.Create()
		request.Partition = []string{"a", "b"}
		_, err := r.Stager.Stage(t.Context(), stage.CallOptions{}, request, unread(t, fields))
		require.Equal(t, fault.Invalid, fault.KindOf(err), "%v", err)
		require.ErrorContains(t, err, "partition fields a and b of table ml.history both have "+text)
		require.NotEmpty(t, fault.As(err).Remedy)
		request.Partition = request.Partition[:1]
		r.Stage(t, request, fields, `[{"id": 1}]`)
	}
}
