package s3_test

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/release"
	"github.com/penstock/penstock/internal/store"
	"github.com/penstock/penstock/internal/store/s3"
)

// TestReadIsOneRequest: a file of known size costs nothing to open, and one request for
// each read.
//
// spec: storage-1
func TestReadIsOneRequest(t *testing.T) {
	f := newFake(t, digits(100))
	o, err := f.open(t, nil).Open(t.Context(), location, 100)
	require.NoError(t, err)
	require.Zero(t, f.count())
	for i := range 2 {
		p := make([]byte, 10)
		require.NoError(t, o.ReadAt(t.Context(), memory.NewBufferBytes(p), 15))
		require.Equal(t, "5678901234", string(p))
		require.Equal(t, i+1, f.count())
	}
	require.Equal(t, "bytes=15-24", f.requests[0].Header.Get("Range"))
	require.Empty(t, f.requests[0].Header.Get("If-Match"))
	require.Equal(t, f.tag, f.requests[1].Header.Get("If-Match"))
	require.Equal(t, f.tag, store.TagOf(o))
	require.NoError(t, o.Close())
}

// TestUnknownSize: a small file is opened and read by one request, a larger one by two,
// and the memory of the head is reserved, and released.
//
// spec: storage-1
func TestUnknownSize(t *testing.T) {
	for size, requests := range map[int]int{0: 2, 10: 1, 256 << 10: 1, 300_000: 2} {
		content := bytes.Repeat([]byte{7}, size)
		f := newFake(t, content)
		held := int64(0)
		s := f.open(t, func(o *s3.Options) {
			o.Reserve = func(_ context.Context, n int64) (*release.Handle, error) {
				held += n
				return release.New(func() { held -= n }), nil
			}
		})
		o, err := s.Open(t.Context(), location, store.SizeUnknown)
		require.NoError(t, err)
		require.Equal(t, int64(size), o.Size())
		require.GreaterOrEqual(t, held, int64(min(size, 256<<10)))
		p := make([]byte, size)
		require.NoError(t, o.ReadAt(t.Context(), memory.NewBufferBytes(p), 0))
		require.True(t, bytes.Equal(content, p))
		require.Equal(t, requests, f.count(), "%d bytes", size)
		require.NoError(t, o.Close())
		require.Zero(t, held)
	}
}

// TestHeadThatIsRefused: without memory for the head, nothing is opened.
func TestHeadThatIsRefused(t *testing.T) {
	f := newFake(t, digits(10))
	s := f.open(t, func(o *s3.Options) {
		o.Reserve = func(context.Context, int64) (*release.Handle, error) {
			return nil, fault.New(fault.Exhausted, "no room")
		}
	})
	_, err := s.Open(t.Context(), location, store.SizeUnknown)
	require.Equal(t, fault.Exhausted, fault.KindOf(err))
	require.Zero(t, f.count())
}

// TestPassingFaults: faults that occur once or twice are fixed by another request, and lasting
// ones are Unavailable after the maximum number of requests.
//
// spec: storage-2, storage-5
func TestPassingFaults(t *testing.T) {
	body := digits(50)
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		text   string
	}{
		"500":                {said(500, "InternalError"), "status 500, InternalError"},
		"503":                {said(503, "SlowDown"), "status 503, SlowDown"},
		"429":                {said(429, "TooManyRequests"), "status 429"},
		"an error page":      {said(502, "<html>"), "status 502"},
		"no connection":      {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, "EOF"},
		"the whole file":     {func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(digits(100)) }, "status 200 in place of"},
		"a page":             {func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>")) }, "status 200 in place of"},
		"another range":      {part("bytes 1-50/100", `"one"`, body), "bytes 1 to 50 in place of 0 to 49"},
		"a shorter range":    {part("bytes 0-48/100", `"one"`, body[:49]), "bytes 0 to 48 in place of"},
		"no range":           {part("", `"one"`, body), `"" as the range`},
		"a range of no size": {part("bytes 0-49/*", `"one"`, body), "as the range"},
		"a short body":       {part("bytes 0-49/100", `"one"`, body[:49]), "49 bytes in place of 50"},
		"a long body":        {part("bytes 0-49/100", `"one"`, digits(60)), "60 bytes in place of 50"},
		"a body of its own length": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Range", "bytes 0-49/100")
			w.Header().Set("ETag", `"one"`)
			w.WriteHeader(http.StatusPartialContent)
			w.(http.Flusher).Flush() // in chunks
			_, _ = w.Write(digits(60))
		}, "does not end after 50 bytes"},
		"a body that ends": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Range", "bytes 0-49/100")
			w.Header().Set("ETag", `"one"`)
			w.WriteHeader(http.StatusPartialContent)
			w.(http.Flusher).Flush()
		}, "ends after 0 of 50 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake(t, digits(100))
			f.answers = map[int]http.HandlerFunc{1: c.answer, 2: c.answer}
			var seen []s3.Request
			s := f.open(t, func(o *s3.Options) { o.Observe = func(r s3.Request) { seen = append(seen, r) } })
			o, err := s.Open(t.Context(), location, 100)
			require.NoError(t, err)
			p := make([]byte, 50)
			require.NoError(t, o.ReadAt(t.Context(), memory.NewBufferBytes(p), 0))
			require.Equal(t, string(body), string(p))
			require.Equal(t, 3, f.count())
			require.Len(t, seen, 3)
			require.NotEqual(t, s3.OK, seen[0].Outcome)
			require.Equal(t, []bool{false, true, true}, []bool{seen[0].Again, seen[1].Again, seen[2].Again})
			require.Equal(t, s3.OK, seen[2].Outcome)

			f.answers = map[int]http.HandlerFunc{0: c.answer}
			err = o.ReadAt(t.Context(), memory.NewBufferBytes(p), 0)
			require.Equal(t, fault.Unavailable.String(), fault.KindOf(err).String(), "%v", err)
			require.ErrorContains(t, err, c.text)
			require.ErrorContains(t, err, location)
			require.ErrorContains(t, err, "8 times")
			if name != "no connection" { // which the transport tries again by itself, where it was used before
				require.Equal(t, 3+8, f.count())
			}
			require.NoError(t, o.Close())
		})
	}
}

// TestTruncatedBodyIsResumed checks that the bytes received so far are not requested again.
//
// spec: storage-4
func TestTruncatedBodyIsResumed(t *testing.T) {
	f := newFake(t, digits(100))
	f.answers[1] = func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("ETag", f.tag)
		w.Header().Set("Content-Range", "bytes 10-99/100")
		w.Header().Set("Content-Length", "90")
		w.WriteHeader(http.StatusPartialContent)
		_, _ = w.Write(digits(100)[10:50])
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	}
	o, err := f.open(t, nil).Open(t.Context(), location, 100)
	require.NoError(t, err)
	p := make([]byte, 90)
	require.NoError(t, o.ReadAt(t.Context(), memory.NewBufferBytes(p), 10))
	require.Equal(t, string(digits(100)[10:]), string(p))
	require.Equal(t, "bytes=50-99", f.requests[1].Header.Get("Range"))
	require.Equal(t, f.tag, f.requests[1].Header.Get("If-Match"))
}

// TestLastingFaults are not tried again.
//
// spec: storage-6
func TestLastingFaults(t *testing.T) {
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		kind   fault.Kind
		text   string
	}{
		"missing":        {said(404, "NoSuchKey"), fault.Corrupt, "is missing"},
		"no bucket":      {said(404, "NoSuchBucket"), fault.Unavailable, "NoSuchBucket"},
		"forbidden":      {said(403, "AccessDenied"), fault.Unavailable, "check that the credentials"},
		"unknown key":    {said(401, "InvalidAccessKeyId"), fault.Unavailable, "check that the credentials"},
		"replaced":       {said(412, "PreconditionFailed"), fault.Corrupt, "was replaced"},
		"another length": {part("bytes 0-49/101", `"one"`, digits(50)), fault.Corrupt, "has 101 bytes, the table's metadata says 100"},
		"shorter": {func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Range", "bytes */40")
			said(416, "InvalidRange")(w, r)
		}, fault.Corrupt, "has 40 bytes, the table's metadata says 100"},
		"no such range": {said(416, "InvalidRange"), fault.Corrupt, "does not have the 100 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake(t, digits(100))
			f.answers[0] = c.answer
			o, err := f.open(t, nil).Open(t.Context(), location, 100)
			require.NoError(t, err)
			err = o.ReadAt(t.Context(), memory.NewBufferBytes(make([]byte, 50)), 0)
			require.Equal(t, c.kind.String(), fault.KindOf(err).String(), "%v", err)
			require.ErrorContains(t, err, c.text)
			require.Equal(t, location, fault.As(err).File)
			require.Equal(t, name == "missing", errors.Is(err, fs.ErrNotExist))
			require.Equal(t, 1, f.count())
			require.NotContains(t, err.Error(), "secret ")
		})
	}
}

// TestAnotherTag: a file that was replaced fails, also where the store ignores If-Match,
// and also if it was replaced between two readers.
//
// spec: storage-3
func TestAnotherTag(t *testing.T) {
	f := newFake(t, digits(100))
	f.answers[0] = func(w http.ResponseWriter, r *http.Request) {
		r.Header.Del("If-Match")
		f.give(w, r)
	}
	s := f.open(t, nil)
	o, err := s.Open(t.Context(), location, 100)
	require.NoError(t, err)
	p := make([]byte, 10)
	require.NoError(t, o.ReadAt(t.Context(), memory.NewBufferBytes(p), 0))
	f.tag = `"two"`
	err = o.ReadAt(t.Context(), memory.NewBufferBytes(p), 0)
	require.Equal(t, fault.Corrupt, fault.KindOf(err))
	require.ErrorContains(t, err, `its ETag is "two", and was "one"`)

	f.tag = ""
	require.ErrorContains(t, o.ReadAt(t.Context(), memory.NewBufferBytes(p), 0), "without an ETag")
	f.tag = `"two"`

	later, err := s.Open(t.Context(), location, 100)
	require.NoError(t, err)
	require.NoError(t, later.(store.Tagged).Expect(""))
	require.NoError(t, later.(store.Tagged).Expect(`"one"`))
	err = later.ReadAt(t.Context(), memory.NewBufferBytes(p), 0)
	require.Equal(t, fault.Corrupt, fault.KindOf(err))

	unknown, err := s.Open(t.Context(), location, store.SizeUnknown)
	require.NoError(t, err)
	require.Equal(t, fault.Corrupt, fault.KindOf(unknown.(store.Tagged).Expect(`"one"`)))
}

// TestSilence: a request that gets no answer, and one whose body stops, is given up and
// repeated, but not forever.
//
// spec: storage-5
func TestSilence(t *testing.T) {
	for name, before := range map[string]int{"no answer": -1, "no body": 0, "half a body": 50} {
		t.Run(name, func(t *testing.T) {
			f := newFake(t, digits(100))
			stall := func(w http.ResponseWriter, r *http.Request) {
				if before >= 0 {
					w.Header().Set("ETag", f.tag)
					w.Header().Set("Content-Range", "bytes 0-99/100")
					w.WriteHeader(http.StatusPartialContent)
					_, _ = w.Write(digits(100)[:before])
					w.(http.Flusher).Flush()
				}
				<-r.Context().Done()
			}
			f.answers = map[int]http.HandlerFunc{1: stall}
			o, err := f.open(t, func(o *s3.Options) { o.Settings.RequestTimeout = 100 * time.Millisecond }).Open(t.Context(), location, 100)
			require.NoError(t, err)
			p := make([]byte, 100)
			require.NoError(t, o.ReadAt(t.Context(), memory.NewBufferBytes(p), 0))
			require.Equal(t, string(digits(100)), string(p))
			f.answers = map[int]http.HandlerFunc{0: func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }}
			err = o.ReadAt(t.Context(), memory.NewBufferBytes(p), 0)
			require.Equal(t, fault.Unavailable, fault.KindOf(err))
			require.ErrorContains(t, err, "silent")
			require.Equal(t, 2+3, f.count())
		})
	}
}

// TestContextEnds a read at once, whatever the store does.
//
// spec: storage-5
func TestContextEnds(t *testing.T) {
	mine := errors.New("mine")
	for _, size := range []int64{100, store.SizeUnknown} {
		f := newFake(t, digits(100))
		asked := make(chan struct{}, 8)
		f.answers[0] = func(_ http.ResponseWriter, r *http.Request) {
			asked <- struct{}{}
			<-r.Context().Done()
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		go func() {
			<-asked
			cancel(mine)
		}()
		o, err := f.open(t, func(o *s3.Options) { o.Settings.RequestTimeout = time.Hour }).Open(ctx, location, size)
		if err == nil {
			err = o.ReadAt(ctx, memory.NewBufferBytes(make([]byte, 100)), 0)
		}
		require.ErrorIs(t, err, mine)
	}
	// So it ends the wait between two tries.
	f := newFake(t, digits(100))
	ctx, cancel := context.WithCancelCause(t.Context())
	f.answers[0] = said(503, "SlowDown")
	s := f.open(t, func(o *s3.Options) { o.Random = func() float64 { cancel(mine); return 1 } })
	o, err := s.Open(ctx, location, 100)
	require.NoError(t, err)
	require.ErrorIs(t, o.ReadAt(ctx, memory.NewBufferBytes(make([]byte, 100)), 0), mine)
}

// TestBackOff: the wait grows to a bound, is random, and is as long as the store asks
// for, within bounds.
//
// spec: storage-5
func TestBackOff(t *testing.T) {
	wait := func(tries int, random float64, after time.Duration) time.Duration {
		got, again := s3.BackOff(tries, random, after)
		require.True(t, again)
		return got
	}
	require.Equal(t, 100*time.Millisecond, wait(1, 0.5, 0))
	require.Equal(t, 400*time.Millisecond, wait(3, 0.5, 0))
	require.Equal(t, 5*time.Second, wait(7, 0.5, 0))
	require.Zero(t, wait(7, 0, 0))
	require.Equal(t, 3*time.Second, wait(1, 0.5, 3*time.Second))
	require.Equal(t, 30*time.Second, wait(1, 0.5, time.Hour))
	_, again := s3.BackOff(8, 0.5, 0)
	require.False(t, again)
}

// TestRegionOfBucket: a bucket that says where it is is asked there.
func TestRegionOfBucket(t *testing.T) {
	f := newFake(t, digits(100))
	f.answers[1] = func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Amz-Bucket-Region", "eu-west-3")
		said(301, "PermanentRedirect")(w, r)
	}
	s := f.open(t, nil)
	for range 2 {
		o, err := s.Open(t.Context(), location, 100)
		require.NoError(t, err)
		require.NoError(t, o.ReadAt(t.Context(), memory.NewBufferBytes(make([]byte, 1)), 0))
	}
	require.Equal(t, 3, f.count())
	require.Contains(t, f.requests[0].Header.Get("Authorization"), "/us-east-1/s3/")
	for _, r := range f.requests[1:] {
		require.Contains(t, r.Header.Get("Authorization"), "/eu-west-3/s3/")
	}
}

// TestKeysAreNotInterpreted checks that special characters of a key stay part of the key.
//
// spec: storage-8
func TestKeysAreNotInterpreted(t *testing.T) {
	f := newFake(t, digits(10))
	s := f.open(t, nil)
	for _, key := range []string{"a b", "a%20b", "a?b#c", "day=2026-10-05/a+b", "x//y", "/x", "ü/é", "a/../b", "a/./b", "x/"} {
		for _, scheme := range []string{"s3", "s3a", "s3n", "S3"} {
			o, err := s.Open(t.Context(), scheme+"://bucket/"+key, 10)
			require.NoError(t, err)
			require.NoError(t, o.ReadAt(t.Context(), memory.NewBufferBytes(make([]byte, 10)), 0))
			require.Equal(t, "/bucket/"+key, f.requests[len(f.requests)-1].URL.Path)
		}
	}
	for _, wrong := range []string{"s3://", "s3://bucket", "s3://bucket/", "s3:///key", "s3:/bucket/key", "file:///a", "/a", "s3://u:p@bucket/key", "s3://a b/key", "s3://b/\x00"} {
		_, err := s.Open(t.Context(), wrong, 10)
		require.Equal(t, fault.Invalid.String(), fault.KindOf(err).String(), "%q: %v", wrong, err)
	}
}

// TestManyReadersKeepConnections: reads side by side use the connections of those before.
func TestManyReadersKeepConnections(t *testing.T) {
	f := newFake(t, digits(100_000))
	var mu sync.Mutex
	connections := map[string]bool{}
	f.answers[0] = func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		connections[r.RemoteAddr] = true
		mu.Unlock()
		f.give(w, r)
	}
	o, err := f.open(t, nil).Open(t.Context(), location, 100_000)
	require.NoError(t, err)
	const readers, reads = 8, 20
	var group sync.WaitGroup
	failed := make([]error, readers)
	for i := range readers {
		group.Go(func() {
			for range reads {
				failed[i] = errors.Join(failed[i], o.ReadAt(t.Context(), memory.NewBufferBytes(make([]byte, 50_000)), int64(i)))
			}
		})
	}
	group.Wait()
	require.NoError(t, errors.Join(failed...))
	require.LessOrEqual(t, len(connections), 2*readers)
}
