package loader_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/scenario"
	"github.com/penstock/penstock/loader"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/loadertest"
)

// leaving is a catalog during whose calls the client leaves; that does not end the call.
type leaving struct {
	catalog.Catalog
	table, files func()
}

func (l leaving) Table(ctx context.Context, name string, ref dataset.Ref) (*catalog.Table, error) {
	l.table()
	return l.Catalog.Table(context.WithoutCancel(ctx), name, ref)
}

func (l leaving) Files(ctx context.Context, t *catalog.Table, columns, ranges []int) ([]catalog.File, error) {
	l.files()
	return l.Catalog.Files(context.WithoutCancel(ctx), t, columns, ranges)
}

// TestPlansEndWithTheirClients: a plan whose client has left goes no further.
//
// spec: wire-47
func TestPlansEndWithTheirClients(t *testing.T) {
	t.Parallel()
	w := scenario.NewWorld()
	t.Cleanup(w.Release)
	loadertest.Rows("ml.t", "id:long v:long", "bucket(2,id)", 6, func(int) string { return "1 2" }).In(t, w)
	left := errors.New("the client has left")
	for _, at := range []string{"table", "files", ""} {
		ctx, leave := context.WithCancelCause(t.Context())
		defer leave(nil)
		calls := leaving{Catalog: w}
		listed := false
		calls.table = func() {
			if at == "table" {
				leave(left)
			}
		}
		calls.files = func() {
			if listed = true; at == "files" {
				leave(left)
			}
		}
		l := loader.New(loader.Options{Datasets: []dataset.Dataset{{Name: "d", Key: []string{"id"}, Training: dataset.Training{Table: "ml.t"}}}, Catalog: calls, Scan: w.Scan})
		_, err := l.Plan(ctx, dataset.Query{Rows: dataset.Rows{Dataset: "d"}})
		if at == "" {
			require.NoError(t, err)
			continue
		}
		require.ErrorIs(t, err, left, at)
		require.Equal(t, at == "files", listed)
	}
}
