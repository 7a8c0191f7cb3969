package upload_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/store"
	"github.com/penstock/penstock/internal/store/errstore"
	"github.com/penstock/penstock/internal/store/storetest"
	"github.com/penstock/penstock/loader/upload"
)

// The memory of parts is reserved until their handles are released. Reserving fails if the memory
// does not fit.
func TestPartsAreReserved(t *testing.T) {
	t.Parallel()
	b := budget.New(100)
	reserve := upload.ReserveParts(b)
	held, err := reserve(t.Context(), 70)
	require.NoError(t, err)
	require.EqualValues(t, 70, b.Used())
	_, err = reserve(t.Context(), 31)
	require.Equal(t, fault.Exhausted, fault.KindOf(err))
	require.ErrorContains(t, err, "parts of data files")
	held.Release()
	require.Zero(t, b.Used())
}

// The bytes of an abandoned write stay reserved until it returns. The bytes of a write that fails
// at once do not.
func TestBytesOfAWriteThatHangsStayReserved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, gate := budget.New(1000), make(chan struct{})
		files := store.NewBounded(errstore.New(storetest.NewMemory(),
			errstore.Rule{Call: errstore.Write, Location: "/t/a", Action: errstore.Hang(nil, gate)},
			errstore.Rule{Call: errstore.Write, Location: "/t/b", Action: errstore.Fail(nil)},
		), store.NewCalls(store.Options{Timeout: time.Minute}))
		write := func(location string) (store.Upload, error) {
			u, err := files.Begin(t.Context(), location, nil)
			require.NoError(t, err)
			return u, upload.NewDestination(u, b).Write(t.Context(), make([]byte, 300))
		}
		hung, err := write("/t/a")
		require.Equal(t, fault.Unavailable, fault.KindOf(err))
		require.EqualValues(t, 300, b.Used())
		failed, err := write("/t/b")
		require.Error(t, err)
		require.EqualValues(t, 300, b.Used(), "the failed write has returned")
		close(gate)
		synctest.Wait()
		require.Zero(t, b.Used())
		written, err := write("/t/c")
		require.NoError(t, err)
		require.Zero(t, b.Used(), "the upload reserves what it keeps")
		for _, u := range []store.Upload{hung, failed, written} {
			_ = u.Abort(t.Context())
		}
		synctest.Wait()
	})
}

// The context for removing files outlives the context of the call, keeps its values, and ends after
// a minute.
func TestFilesAreRemovedAfterTheCallEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type key struct{}
		call, end := context.WithCancel(context.WithValue(t.Context(), key{}, "value"))
		end()
		ctx, done := upload.AfterFailure(call)
		defer done()
		require.NoError(t, ctx.Err())
		require.Equal(t, "value", ctx.Value(key{}))
		began := time.Now()
		<-ctx.Done()
		require.Equal(t, time.Minute, time.Since(began))
	})
}
