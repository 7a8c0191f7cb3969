package maintenance_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/store"
	"github.com/penstock/penstock/internal/store/s3"
	"github.com/penstock/penstock/internal/store/s3/gatewaytest"
	"github.com/penstock/penstock/loader/catalog/commit"
	"github.com/penstock/penstock/loader/catalog/icebergcat"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/maintenance"
	"github.com/penstock/penstock/loader/stage/stagetest"
)

// spec: stage-45, compact-1, compact-20
func TestTablesOnS3AreStagedTo(t *testing.T) {
	gateway, err := gatewaytest.Start(t.Context(), t.TempDir())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, gateway.Close()) })
	require.NoError(t, gateway.MakeBucket(t.Context(), "lake"))
	files, err := s3.New(t.Context(), s3.Options{
		Settings: s3.Settings{Endpoint: gateway.URL, PathStyle: true, AccessKeyID: gatewaytest.Access, SecretAccessKey: gatewaytest.Secret},
	})
	require.NoError(t, err)
	t.Cleanup(files.Close)
	kind := s3.Kind(store.Environment{})
	kind.Open = func(context.Context, map[string]string, store.Credentials) (store.Store, error) { return files, nil }
	r := newRig(t, stagetest.Unlimited, func(o *icebergcat.Options) { o.Stores, o.Warehouse = store.NewKinds(kind), "s3://lake/warehouse" })
	r.Stage(t, stagetest.Create(), stagetest.Schema(), stagetest.Few)
	request := dataset.TableWrite{Table: stagetest.History, Token: commit.NewToken(time.Now(), "second")}
	second := r.Stage(t, request, stagetest.Schema(), stagetest.Few)
	require.Equal(t, second.Snapshot, r.Stage(t, request, stagetest.Schema(), stagetest.Few).Snapshot)
	rows := int64(0)
	for _, f := range r.Listed(t, "") {
		require.True(t, strings.HasPrefix(f.Location, "s3://lake/warehouse/ml/history/data/"), f.Location)
		object, err := files.Open(t.Context(), f.Location, f.Bytes)
		require.NoError(t, err)
		require.NoError(t, object.Close())
		rows += f.Rows
	}
	require.EqualValues(t, 8, rows)
	before := r.written(t, "")
	require.NotZero(t, r.compact(t, maintenance.Compaction{MinFiles: 2}).Commits)
	sameByKey(t, before, r.written(t, ""))
	require.NotZero(t, r.restore(t, maintenance.Restoration{Snapshot: second.Snapshot}).Copied)
	require.Equal(t, before, r.written(t, ""))
}
