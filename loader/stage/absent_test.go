package stage_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/loader/catalog/commit"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/stage"
	"github.com/penstock/penstock/loader/stage/stagetest"
)

// Columns that the input lacks are null in every row, for each type and regardless of the previous
// content of memory.
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
		r := stagetest.New(t, stagetest.Unlimited, nil)
		require.NoError(t, r.Tables.Create(t.Context(), commit.NewTable{Table: stagetest.History, Columns: columns}))
		r.Stage(t, dataset.TableWrite{Table: stagetest.History}, of, "["+strings.Repeat(`{"id": 1},`, n-1)+`{"id": 2}]`)
		for i, kind := range types {
			values := r.Column(t, "", fmt.Sprintf("c%d", i))
			require.Len(t, values, n)
			require.Equal(t, []string{array.NullValueStr}, slices.Compact(values), "%d rows of %s", n, kind)
		}
	}
}

// Memory for columns that the input lacks is reserved, although all values are null.
//
// spec: stage-42
func TestAbsentColumnsAreCharged(t *testing.T) {
	for _, wide := range []string{`fixed[4096]`, `{"type":"struct","fields":[{"id":3,"name":"a","type":"fixed[4096]","required":false}]}`} {
		r := stagetest.New(t, stagetest.Unlimited, nil)
		mem := &charged{Allocator: batch.Default(), budget: r.Budget}
		require.NoError(t, r.Tables.Create(t.Context(), commit.NewTable{
			Table: stagetest.History, Columns: []commit.NewColumn{{ID: 1, Name: "id", Type: "long"}, {ID: 2, Name: "wide", Type: wide}},
		}))
		o := r.Rows
		o.Memory, o.Threads, o.FileBytes = mem, 0, 0
		r.Restart(o)
		of := arrow.NewSchema([]arrow.Field{{Name: "id", Type: arrow.PrimitiveTypes.Int64, Nullable: true}}, nil)
		_, err := r.Stager.Stage(t.Context(), stage.CallOptions{}, dataset.TableWrite{Table: stagetest.History}, stagetest.Rows(t, of, "["+strings.Repeat(`{"id": 1},`, 999)+`{"id": 2}]`))
		require.NoError(t, err)
		require.LessOrEqual(t, mem.beyond, int64(0), wide)
		require.Len(t, r.Column(t, "", "id"), 1000)
	}
}

// charged is an allocator that measures memory allocated beyond the budget's reservations.
type charged struct {
	memory.Allocator
	budget *budget.Budget
	beyond int64
}

func (c *charged) Allocate(size int) []byte {
	c.beyond = max(c.beyond, int64(size)-c.budget.Used())
	return c.Allocator.Allocate(size)
}
