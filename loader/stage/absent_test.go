package stage_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/loader/catalog/commit"
	"github.com/penstock/penstock/loader/extsort"
	"github.com/penstock/penstock/loader/stage"
)

// Columns of each type that the input lacks are null in every row, whatever memory had before.
//
// spec: stage-34
func TestAbsentColumnsAreNull(t *testing.T) {
	types := []string{
		`"boolean"`, `"int"`, `"long"`, `"float"`, `"double"`, `"date"`, `"time"`, `"timestamp"`, `"timestamptz"`, `"string"`, `"binary"`,
		`"uuid"`, `"fixed[5]"`, `"decimal(9,2)"`, `"decimal(30,4)"`,
		`{"type":"list","element-id":101,"element":"string","element-required":false}`,
		`{"type":"map","key-id":102,"key":"string","value-id":103,"value":"double","value-required":false}`,
		`{"type":"struct","fields":[{"id":104,"name":"a","type":"string","required":false},{"id":105,"name":"b","type":{"type":"list","element-id":106,"element":"int","element-required":false},"required":false}]}`,
	}
	columns := []commit.NewColumn{{ID: 1, Name: "id", Type: "long"}}
	for i, kind := range types {
		columns = append(columns, commit.NewColumn{ID: i + 2, Name: fmt.Sprintf("c%d", i), Type: strings.Trim(kind, `"`)})
	}
	of := arrow.NewSchema([]arrow.Field{{Name: "id", Type: arrow.PrimitiveTypes.Int64, Nullable: true}}, nil)
	for _, n := range []int{1, 5, 1000, 20_000} {
		r := newRig(t, unlimited, nil)
		require.NoError(t, r.tables.Create(t.Context(), commit.NewTable{Table: history, Columns: columns}))
		r.stage(t, stage.TableWrite{Table: history}, of, "["+strings.Repeat(`{"id": 1},`, n-1)+`{"id": 2}]`)
		for i, kind := range types {
			values := r.column(t, "", fmt.Sprintf("c%d", i))
			require.Len(t, values, n)
			require.Equal(t, []string{array.NullValueStr}, slices.Compact(values), "%d rows of %s", n, kind)
		}
	}
}

// Columns that the input lacks take memory, even if they are null.
//
// spec: stage-42
func TestAbsentColumnsAreCharged(t *testing.T) {
	for _, wide := range []string{`fixed[4096]`, `{"type":"struct","fields":[{"id":3,"name":"a","type":"fixed[4096]","required":false}]}`} {
		r := newRig(t, unlimited, nil)
		mem := &charged{Allocator: batch.Default(), budget: r.budget}
		require.NoError(t, r.tables.Create(t.Context(), commit.NewTable{
			Table: history, Columns: []commit.NewColumn{{ID: 1, Name: "id", Type: "long"}, {ID: 2, Name: "wide", Type: wide}},
		}))
		stager := stage.New(stage.Options{
			Route: func(table string) (stage.WritableTables, string, error) { return &r.tables, table, nil },
			Disk:  func(what string) (extsort.RunStore, error) { return r.disk.Create(what) },
			Clock: time.Now, Budget: r.budget, Memory: mem,
		})
		of := arrow.NewSchema([]arrow.Field{{Name: "id", Type: arrow.PrimitiveTypes.Int64, Nullable: true}}, nil)
		_, err := stager.Stage(t.Context(), stage.TableWrite{Table: history}, rows(t, of, "["+strings.Repeat(`{"id": 1},`, 999)+`{"id": 2}]`))
		require.NoError(t, err)
		require.LessOrEqual(t, mem.beyond, int64(0), wide)
		require.Len(t, r.column(t, "", "id"), 1000)
	}
}
