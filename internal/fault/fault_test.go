package fault_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/fault"
)

func TestErrorTextHasAllDetails(t *testing.T) {
	t.Parallel()
	err := fault.Op(fault.Op(fault.New(fault.Corrupt, "page 3: %w", io.ErrUnexpectedEOF).
		In("ml.train", "a.parquet").InRowGroup(2).WithRemedy("write it again"), "read bucket %d", 7), "stream shard 0")
	require.EqualError(t, err, "stream shard 0: read bucket 7: page 3: unexpected EOF (file a.parquet, row group 2); write it again")
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	e := fault.As(fmt.Errorf("outside: %w", err))
	require.Equal(t, fault.Corrupt, e.Kind)
	require.Equal(t, "ml.train", e.Table)
	require.Equal(t, "a.parquet", e.File)
	require.Equal(t, 2, *e.RowGroup)
}

func TestOpKeepsKindAndCause(t *testing.T) {
	t.Parallel()
	require.NoError(t, fault.Op(nil, "nothing"))
	require.ErrorIs(t, fault.Op(context.Canceled, "read"), context.Canceled)
	require.Equal(t, fault.Unavailable, fault.KindOf(fault.Op(context.DeadlineExceeded, "read")))
	require.Equal(t, fault.Internal, fault.KindOf(errors.New("unclassified")))
	require.Equal(t, fault.Internal, fault.As(errors.New("unclassified")).Kind)
	require.Nil(t, fault.As(nil))
	inner := fault.New(fault.NotFound, "gone")
	_ = fault.Op(inner, "open")
	require.Empty(t, inner.Op, "the wrapped error is not changed")
}

func TestFieldsReportsEveryFault(t *testing.T) {
	t.Parallel()
	require.NoError(t, fault.Fields(nil))
	err := fault.Fields([]fault.Field{
		{Field: "a.b", Message: "unknown field", Nearest: "a.c"},
		{Field: "filter", Position: 7, Message: "unexpected )"},
		{Field: "b", Message: "unknown field", Line: 3, Nearest: "c"},
	})
	require.EqualError(t, err, `a.b: unknown field (did you mean "a.c"?); filter: at position 7: unexpected ); b: unknown field (line 3) (did you mean "c"?)`)
	require.Equal(t, fault.Invalid, fault.KindOf(err))
	require.Len(t, fault.As(err).Faults, 3)
}

func TestKindNames(t *testing.T) {
	t.Parallel()
	names := map[string]bool{}
	for k := fault.Internal; k <= fault.Unavailable; k++ {
		names[k.String()] = true
	}
	require.Len(t, names, 10)
	require.Equal(t, "internal", fault.Kind(99).String())
}

// TestLongNamesCostNothing checks that the distance of names whose lengths differ too much is not computed, and that this changes no
// result.
func TestLongNamesCostNothing(t *testing.T) {
	var known []string
	for i := range 50 {
		known = append(known, fmt.Sprintf("column_%d", i))
	}
	long := strings.Repeat("a", 1<<20)
	require.Empty(t, fault.Nearest(long, known))
	require.LessOrEqual(t, testing.AllocsPerRun(1, func() { fault.Nearest(long, known) }), 1.0)
	for i, name := range known {
		require.Equal(t, name, fault.Nearest(name+"_x", known[i:]), "two more letters, of a third of eleven")
		require.Equal(t, name, fault.Nearest(name[2:], known[i:i+1]))
	}
}

func TestNearest(t *testing.T) {
	t.Parallel()
	known := []string{"training", "staging", "key", "missing"}
	for name, want := range map[string]string{
		"trainning": "training", "Staging": "staging", "kye": "key", "mising": "missing", "xyz": "", "": "", "k": "",
	} {
		require.Equal(t, want, fault.Nearest(name, known), name)
	}
	// Without a near candidate, the only one that shares a prefix or suffix.
	columns := []string{"imp_id", "computed_at", "served_at", "id"}
	for name, want := range map[string]string{
		"imp": "imp_id", "comp": "computed_at", "Served": "served_at", "imp_id_of_it": "imp_id", "_at": "", "mpute": "",
	} {
		require.Equal(t, want, fault.Nearest(name, columns), name)
	}
}
