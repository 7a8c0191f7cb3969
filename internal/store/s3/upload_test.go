package s3_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/release"
	"github.com/penstock/penstock/internal/store"
	"github.com/penstock/penstock/internal/store/s3"
	"github.com/penstock/penstock/internal/store/s3/gatewaytest"
	"github.com/penstock/penstock/internal/store/storetest"
)

// part is the size of the parts of a file.
const partBytes = 8 << 20

// quick makes a store that does not wait between tries.
func quick(o *s3.Options) { o.Random = func() float64 { return 0 } }

func TestUploads(t *testing.T) {
	l := newLake(t)
	var number atomic.Int64
	storetest.RunUploads(t, func(t *testing.T) storetest.Writing {
		folder := fmt.Sprintf("s3://%s/%d/table", bucket, number.Add(1))
		return storetest.Writing{Store: l.open(t, quick), Folder: folder, Begun: partBytes + 1, Buffered: 4 * partBytes, Settle: s3.Settle}
	})
}

// content returns n bytes, of which no two parts are alike.
func content(n int) []byte {
	const period = 65_537
	block := make([]byte, period)
	for i := range block {
		block[i] = byte(i*7 + i/251)
	}
	return bytes.Repeat(block, n/period+1)[:n]
}

// upload writes a file in writes of 1 MiB.
func upload(ctx context.Context, s *s3.Store, location string, content []byte, reserve store.Reserve) (store.Upload, error) {
	u, err := s.Begin(ctx, location, reserve)
	if err != nil {
		return nil, err
	}
	for rest := content; len(rest) > 0; {
		n := min(len(rest), 1<<20)
		if err := u.Write(ctx, memory.NewBufferBytes(rest[:n])); err != nil {
			return u, err
		}
		rest = rest[n:]
	}
	return u, u.Finish(ctx)
}

// TestRequestsOfUploads: a small file is one request, a long one is one for each part and two more.
//
// spec: storage-32
func TestRequestsOfUploads(t *testing.T) {
	l := newLake(t)
	s := l.open(t, quick)
	for size, want := range map[int][]string{
		0:               {"PUT"},
		10:              {"PUT"},
		partBytes:       {"PUT"},
		partBytes + 1:   {"POST", "PUT", "PUT", "POST"},
		2*partBytes + 1: {"POST", "PUT", "PUT", "PUT", "POST"},
	} {
		l.proxy.Reset()
		_, err := upload(t.Context(), s, fmt.Sprintf("s3://%s/%d", bucket, size), content(size), nil)
		require.NoError(t, err)
		var got []string
		for _, r := range l.proxy.Requests() {
			got = append(got, r.Method)
		}
		require.Equal(t, want, got, "%d bytes", size)
	}
	l.proxy.Reset()
	u, err := s.Begin(t.Context(), "s3://lake/aborted", nil)
	require.NoError(t, err)
	require.NoError(t, u.Write(t.Context(), memory.NewBufferBytes(content(10))))
	require.NoError(t, u.Abort(t.Context()))
	require.Empty(t, l.proxy.Requests())
}

// TestFaultsOfUploads: whichever request fails, before or after the store has acted, the
// upload succeeds by trying again, and the file is there once.
//
// spec: storage-33
func TestFaultsOfUploads(t *testing.T) {
	l := newLake(t)
	s := l.open(t, quick)
	for _, size := range []int{1000, partBytes + 1} {
		want := content(size)
		for name, f := range map[string]gatewaytest.Fault{
			"no answer":       {Kind: gatewaytest.Refuse},
			"throttled":       {Kind: gatewaytest.Answer, Code: 503},
			"failed":          {Kind: gatewaytest.Answer, Code: 500},
			"the answer lost": {Kind: gatewaytest.Cut},
		} {
			for nth := 1; ; nth++ {
				location := fmt.Sprintf("s3://%s/%d/%s/%d", bucket, size, name, nth)
				l.proxy.Reset()
				l.proxy.Spoil(func(r gatewaytest.Request) gatewaytest.Fault {
					if r.Number == nth {
						return f
					}
					return gatewaytest.Fault{}
				})
				_, err := upload(t.Context(), s, location, want, nil)
				require.NoError(t, err, "%s, request %d", name, nth)
				made := len(l.proxy.Requests())
				l.proxy.Spoil(nil)
				require.True(t, bytes.Equal(want, storetest.Content(t, s, location)), "%s, request %d", name, nth)
				if made < nth {
					break
				}
			}
		}
	}
}

// TestStoresThatFailForGood: from some request on, all fail. Then the file is complete or not
// there, the error reports its state, and the rest is listed and can be discarded.
//
// spec: storage-33, storage-34, storage-37
func TestStoresThatFailForGood(t *testing.T) {
	l := newLake(t)
	s := l.open(t, quick)
	// The gateway may still have a part whose client has left; it fails for a moment then.
	patient := l.open(t, nil)
	for _, size := range []int{1000, partBytes + 1} {
		want := content(size)
		for name, first := range map[string]gatewaytest.FaultKind{"no answer": gatewaytest.Refuse, "the answer lost": gatewaytest.Cut} {
			for nth := 1; ; nth++ {
				folder := fmt.Sprintf("s3://%s/%d/%s/%d", bucket, size, name, nth)
				l.proxy.Reset()
				l.proxy.Spoil(func(r gatewaytest.Request) gatewaytest.Fault {
					switch {
					case r.Number == nth:
						return gatewaytest.Fault{Kind: first}
					case r.Number > nth:
						return gatewaytest.Fault{Kind: gatewaytest.Refuse}
					}
					return gatewaytest.Fault{}
				})
				held := &storetest.Held{}
				u, err := upload(t.Context(), s, folder+"/file", want, held.Reserve)
				if err == nil {
					l.proxy.Spoil(nil)
					break
				}
				require.Equal(t, fault.Unavailable, fault.KindOf(err), "%v", err)
				_ = u.Abort(t.Context())
				now, _ := held.Bytes()
				require.Zero(t, now)
				l.proxy.Spoil(nil)
				files := storetest.Entries(t, patient.List, folder)
				if len(files) > 0 {
					require.True(t, store.UnknownOutcome(err), "%s, request %d: %v", name, nth, err)
					require.True(t, bytes.Equal(want, storetest.Content(t, s, folder+"/file")))
				}
				for _, e := range storetest.Entries(t, patient.Unfinished, folder) {
					require.Equal(t, folder+"/file", e.Location)
					require.NoError(t, patient.Discard(t.Context(), e))
				}
				require.Empty(t, storetest.Entries(t, patient.Unfinished, folder))
			}
		}
	}
}

// TestUploadsNeedOneBuffer: without memory for more, parts are sent one at a time.
//
// spec: storage-32
func TestUploadsNeedOneBuffer(t *testing.T) {
	l := newLake(t)
	held, limit := &storetest.Held{}, int64(partBytes+partBytes/2)
	reserve := func(ctx context.Context, n int64) (*release.Handle, error) {
		if now, _ := held.Bytes(); now+n > limit {
			if n < partBytes {
				return nil, fault.New(fault.Exhausted, "no room")
			}
			<-ctx.Done() // as a budget that waits: a part that has been sent ends it
			return nil, context.Cause(ctx)
		}
		return held.Reserve(ctx, n)
	}
	location := "s3://" + bucket + "/one"
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // it would wait forever
	defer cancel()
	u, err := l.open(t, quick).Begin(ctx, location, reserve)
	require.NoError(t, err)
	for rest := content(4*partBytes + 5); len(rest) > 0; {
		n := min(len(rest), partBytes) // the first buffer has the size of its part at once
		require.NoError(t, u.Write(ctx, memory.NewBufferBytes(rest[:n])))
		rest = rest[n:]
	}
	require.NoError(t, u.Finish(t.Context()))
	now, peak := held.Bytes()
	require.Zero(t, now)
	require.Equal(t, int64(partBytes), peak)
	require.True(t, bytes.Equal(content(4*partBytes+5), storetest.Content(t, l.open(t, nil), location)))
}

// TestMemoryOfUploads: a store that is slow makes the writer wait, so that four parts are in memory
// at most.
//
// spec: storage-32
func TestMemoryOfUploads(t *testing.T) {
	held, four, once := &storetest.Held{}, make(chan struct{}), sync.Once{}
	f := newFake(t, nil)
	f.answers[1] = beginUpload
	f.answers[0] = func(w http.ResponseWriter, r *http.Request) {
		<-four
		takePart(w, r)
	}
	f.answers[10] = completeUpload
	u, err := f.open(t, nil).Begin(t.Context(), location, func(ctx context.Context, n int64) (*release.Handle, error) {
		h, err := held.Reserve(ctx, n)
		if now, _ := held.Bytes(); now >= 4*partBytes {
			once.Do(func() { close(four) })
		}
		return h, err
	})
	require.NoError(t, err)
	for range 8 {
		require.NoError(t, u.Write(t.Context(), memory.NewBufferBytes(make([]byte, partBytes))))
	}
	require.NoError(t, u.Finish(t.Context()))
	now, peak := held.Bytes()
	require.Zero(t, now)
	require.Equal(t, int64(4*partBytes), peak)
	require.Equal(t, 10, f.count())
}

// TestUploadsWithoutMemory fail before anything is sent.
func TestUploadsWithoutMemory(t *testing.T) {
	f := newFake(t, nil)
	none := func(context.Context, int64) (*release.Handle, error) {
		return nil, fault.New(fault.Exhausted, "no room")
	}
	u, err := f.open(t, nil).Begin(t.Context(), location, none)
	require.NoError(t, err)
	require.Equal(t, fault.Exhausted, fault.KindOf(u.Write(t.Context(), memory.NewBufferBytes([]byte("a")))))
	require.NoError(t, u.Abort(t.Context()))
	require.Zero(t, f.count())
}

// TestUploadsThatHang: the context of a call ends it, parts in flight end with Abort, and no memory
// stays reserved.
//
// spec: storage-35, storage-39
func TestUploadsThatHang(t *testing.T) {
	l := newLake(t)
	s := l.open(t, func(o *s3.Options) { quick(o); o.Settings.RequestTimeout = time.Hour })
	mine := errors.New("mine")
	for name, size := range map[string]int{"whole": 10, "parts": 5*partBytes + 1} {
		t.Run(name, func(t *testing.T) {
			held := &storetest.Held{}
			ctx, cancel := context.WithCancelCause(t.Context())
			l.proxy.Spoil(func(r gatewaytest.Request) gatewaytest.Fault {
				if r.Method == http.MethodPut {
					cancel(mine)
					return gatewaytest.Fault{Kind: gatewaytest.Hang}
				}
				return gatewaytest.Fault{}
			})
			u, err := upload(ctx, s, "s3://"+bucket+"/hanging/"+name, content(size), held.Reserve)
			require.ErrorIs(t, err, mine)
			require.Equal(t, name == "whole", store.UnknownOutcome(err), "only its one request creates the file")
			require.NoError(t, u.Abort(t.Context()))
			now, _ := held.Bytes()
			require.Zero(t, now)
			require.Empty(t, storetest.Entries(t, s.Unfinished, "s3://"+bucket+"/hanging"))
		})
	}
}
