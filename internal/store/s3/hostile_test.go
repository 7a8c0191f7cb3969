package s3_test

import (
	"fmt"
	"io/fs"
	"net/http"
	"testing"

	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/store"
	"github.com/penstock/penstock/internal/store/s3"
)

// TestNotFoundByOthers: only a store that reports that the key does not exist is trusted. Other
// sources of a 404 (a wrong endpoint, a proxy) do not know the file, and a search for the
// newest of several files would return an older one.
func TestNotFoundByOthers(t *testing.T) {
	for name, answer := range map[string]http.HandlerFunc{
		"a page":        func(w http.ResponseWriter, r *http.Request) { http.Error(w, "<html>nginx</html>", http.StatusNotFound) },
		"nothing":       func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotFound) },
		"another error": said(404, "InvalidAccessKeyId"),
	} {
		f := newFake(t, digits(100))
		f.answers[0] = answer
		s := f.open(t, nil)
		_, err := s.Open(t.Context(), location, store.SizeUnknown)
		require.Equal(t, fault.Unavailable.String(), fault.KindOf(err).String(), "%s: %v", name, err)
		require.NotErrorIs(t, err, fs.ErrNotExist)
		require.ErrorContains(t, err, "status 404")
		require.Contains(t, fault.As(err).Remedy, "endpoint")
		require.Equal(t, 1, f.count())
	}
	f := newFake(t, nil)
	f.answers[1], f.answers[2] = said(416, "InvalidRange"), func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotFound) }
	_, err := f.open(t, nil).Open(t.Context(), location, store.SizeUnknown)
	require.ErrorIs(t, err, fs.ErrNotExist, "what answers a HEAD has no body")
}

// TestInvalidRegionIsNotKept checks that an invalid region in a response is not remembered.
func TestInvalidRegionIsNotKept(t *testing.T) {
	f := newFake(t, digits(100))
	f.answers[1] = func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Amz-Bucket-Region", "evil.example/#")
		said(301, "PermanentRedirect")(w, r)
	}
	o, err := f.open(t, nil).Open(t.Context(), location, 100)
	require.NoError(t, err)
	require.Equal(t, fault.Unavailable, fault.KindOf(o.ReadAt(t.Context(), memory.NewBufferBytes(make([]byte, 1)), 0)))
	require.NoError(t, o.ReadAt(t.Context(), memory.NewBufferBytes(make([]byte, 1)), 0))
}

// TestStoresThatRepeatSecrets: some say what they refuse with all of its headers.
func TestStoresThatRepeatSecrets(t *testing.T) {
	f := newFake(t, digits(100))
	f.answers[0] = func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusForbidden)
		_, _ = fmt.Fprintf(w, "<Error><Code>AccessDenied</Code><Message>no: %s %s</Message></Error>",
			r.Header.Get("X-Amz-Security-Token"), r.Header.Get("Authorization"))
	}
	s := f.open(t, func(o *s3.Options) { o.Settings.SessionToken = "s3cret-session" })
	o, err := s.Open(t.Context(), location, 100)
	require.NoError(t, err)
	err = o.ReadAt(t.Context(), memory.NewBufferBytes(make([]byte, 1)), 0)
	require.ErrorContains(t, err, "no: xxxxx")
	require.NotContains(t, err.Error(), "s3cret")
	require.NotContains(t, err.Error(), "Signature=")
}
