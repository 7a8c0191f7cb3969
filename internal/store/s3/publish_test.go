package s3_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/store"
	"github.com/penstock/penstock/internal/store/s3"
)

// marked keeps the mark of the last upload.
type marked struct{ mark string }

func (m *marked) keep(answer http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		m.mark = r.Header.Get("X-Amz-Meta-Penstock-Upload")
		_, _ = io.Copy(io.Discard, r.Body)
		answer(w, r)
	}
}

// mine answers that there is a file with that mark, and other that there is one without.
func (m *marked) mine(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("X-Amz-Meta-Penstock-Upload", m.mark)
}

func other(http.ResponseWriter, *http.Request) {}

func cut(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }

func absent(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotFound) }

// TestPublish: of a file of one part, the answers decide whether it was created, by which upload,
// and whether that is known.
//
// spec: storage-33, storage-34
func TestPublish(t *testing.T) {
	m := &marked{}
	put := func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || string(body) != "text" || r.Header.Get("If-None-Match") != "*" || r.Method != http.MethodPut ||
			r.Header.Get("X-Amz-Checksum-Crc32c") == "" || r.Header.Get("X-Amz-Meta-Penstock-Upload") == "" {
			w.WriteHeader(http.StatusTeapot)
		}
		w.Header().Set("ETag", `"one"`)
	}
	there := said(412, "PreconditionFailed")
	for name, c := range map[string]struct {
		answers []http.HandlerFunc
		after   http.HandlerFunc // nil: no other request
		kind    fault.Kind       // Internal: it succeeds
		text    string
		unknown bool
	}{
		"created":                  {answers: []http.HandlerFunc{put}},
		"created again":            {answers: []http.HandlerFunc{said(503, "SlowDown"), put}},
		"there":                    {answers: []http.HandlerFunc{there}, kind: fault.Conflict, text: "already exists"},
		"there, and throttled":     {answers: []http.HandlerFunc{said(503, "SlowDown"), there, other}, kind: fault.Conflict, text: "already exists"},
		"created, answer lost":     {answers: []http.HandlerFunc{m.keep(cut), there, m.mine}},
		"created, and it failed":   {answers: []http.HandlerFunc{m.keep(said(500, "InternalError")), there, m.mine}},
		"created by another":       {answers: []http.HandlerFunc{cut, there, other}, kind: fault.Conflict, text: "already exists"},
		"found late":               {answers: []http.HandlerFunc{m.keep(cut), there, said(500, ""), there, m.mine}},
		"it vanished":              {answers: []http.HandlerFunc{cut, there, absent, put}},
		"two at once":              {answers: []http.HandlerFunc{said(409, "ConditionalRequestConflict"), put}},
		"damaged on the way":       {answers: []http.HandlerFunc{said(400, "BadDigest"), put}},
		"refused":                  {answers: []http.HandlerFunc{said(403, "AccessDenied")}, kind: fault.Unavailable, text: "refuses to write file s3://bucket/a.parquet: status 403"},
		"refused after a lost one": {answers: []http.HandlerFunc{cut, said(403, "AccessDenied")}, kind: fault.Unavailable, text: "refuses to write", unknown: true},
		"never answered":           {after: cut, kind: fault.Unavailable, text: "did not take file s3://bucket/a.parquet, 8 times", unknown: true},
		"two at once, for long":    {after: said(409, "ConditionalRequestConflict"), kind: fault.Unavailable, text: "ConditionalRequestConflict"},
		"a page":                   {answers: []http.HandlerFunc{m.keep(other), there, m.mine}},
		"another checksum returned": {after: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("ETag", `"one"`)
			w.Header().Set("X-Amz-Checksum-Crc32c", "AAAAAA==")
		}, kind: fault.Unavailable, text: "checksum AAAAAA==", unknown: true},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake(t, nil)
			for i, a := range c.answers {
				f.answers[i+1] = a
			}
			f.answers[0] = c.after
			u, err := f.open(t, nil).Begin(t.Context(), location, nil)
			require.NoError(t, err)
			require.NoError(t, u.Write(t.Context(), memory.NewBufferBytes([]byte("text"))))
			err = u.Finish(t.Context())
			if c.kind == fault.Internal {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, c.text)
				require.Equal(t, c.kind.String(), fault.KindOf(err).String())
				require.Equal(t, location, fault.As(err).File)
			}
			require.Equal(t, c.unknown, store.UnknownOutcome(err))
			if c.after == nil {
				require.Equal(t, len(c.answers), f.count())
			}
			require.NoError(t, u.Abort(t.Context()))
		})
	}
}

// beginUpload answers as a store that begins an upload in parts.
func beginUpload(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("X-Amz-Checksum-Algorithm") != "CRC32C" {
		w.WriteHeader(http.StatusTeapot)
	}
	_, _ = fmt.Fprint(w, "<InitiateMultipartUploadResult><UploadId>one</UploadId></InitiateMultipartUploadResult>")
}

// takePart answers as a store that takes a part.
func takePart(w http.ResponseWriter, r *http.Request) {
	n, _ := io.Copy(io.Discard, r.Body)
	if r.URL.Query().Get("uploadId") != "one" || r.Header.Get("X-Amz-Checksum-Crc32c") == "" || n != 1 && n != partBytes {
		w.WriteHeader(http.StatusTeapot)
	}
	w.Header().Set("ETag", `"`+r.URL.Query().Get("partNumber")+`"`)
}

// completeUpload answers as a store that makes a file of parts.
func completeUpload(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	parts := strings.Count(string(body), "<PartNumber>")
	if parts < 2 || strings.Count(string(body), "<ChecksumCRC32C>") != parts || r.Header.Get("If-None-Match") != "*" {
		w.WriteHeader(http.StatusTeapot)
	}
	_, _ = fmt.Fprint(w, "<CompleteMultipartUploadResult><ETag>x</ETag></CompleteMultipartUploadResult>")
}

// TestComplete: of a file in parts, as TestPublish.
//
// spec: storage-33, storage-34
func TestComplete(t *testing.T) {
	m := &marked{}
	failed := func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprint(w, "<Error><Code>InternalError</Code><Message>no</Message></Error>")
	}
	there, gone := said(412, "PreconditionFailed"), said(404, "NoSuchUpload")
	for name, c := range map[string]struct {
		answers []http.HandlerFunc // after the parts
		kind    fault.Kind         // Internal: it succeeds
		text    string
		unknown bool
	}{
		"completed":             {answers: []http.HandlerFunc{completeUpload}},
		"failed with 200":       {answers: []http.HandlerFunc{failed, completeUpload}},
		"completed, lost":       {answers: []http.HandlerFunc{cut, gone, m.mine}},
		"completed, there":      {answers: []http.HandlerFunc{cut, there, m.mine}},
		"there":                 {answers: []http.HandlerFunc{there}, kind: fault.Conflict, text: "already exists"},
		"lost, and there":       {answers: []http.HandlerFunc{cut, there, other}, kind: fault.Conflict, text: "already exists"},
		"discarded":             {answers: []http.HandlerFunc{gone, absent}, kind: fault.Unavailable, text: "no longer has the parts"},
		"discarded after a cut": {answers: []http.HandlerFunc{cut, gone, absent}, kind: fault.Unavailable, text: "no longer has the parts"},
		"discarded, and there":  {answers: []http.HandlerFunc{gone, other}, kind: fault.Conflict, text: "already exists"},
		"lost, then refused":    {answers: []http.HandlerFunc{cut, said(403, "AccessDenied")}, kind: fault.Unavailable, text: "refuses to write", unknown: true},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake(t, nil)
			f.answers[1], f.answers[2], f.answers[3] = m.keep(beginUpload), takePart, takePart
			for i, a := range c.answers {
				f.answers[i+4] = a
			}
			u, err := f.open(t, nil).Begin(t.Context(), location, nil)
			require.NoError(t, err)
			require.NoError(t, u.Write(t.Context(), memory.NewBufferBytes(make([]byte, partBytes+1))))
			err = u.Finish(t.Context())
			if c.kind == fault.Internal {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, c.text)
				require.Equal(t, c.kind.String(), fault.KindOf(err).String())
			}
			require.Equal(t, c.unknown, store.UnknownOutcome(err))
			require.Equal(t, len(c.answers)+3, f.count())
		})
	}
}

// TestPartsThatFail end the upload: the file is not there, and that is known.
func TestPartsThatFail(t *testing.T) {
	f := newFake(t, nil)
	f.answers[1] = beginUpload
	refused := said(http.StatusForbidden, "AccessDenied")
	f.answers[0] = func(w http.ResponseWriter, r *http.Request) { // called for two parts at a time
		_, _ = io.Copy(io.Discard, r.Body)
		refused(w, r)
	}
	u, err := f.open(t, nil).Begin(t.Context(), location, nil)
	require.NoError(t, err)
	for range 20 {
		if err = u.Write(t.Context(), memory.NewBufferBytes(make([]byte, partBytes))); err != nil {
			break
		}
	}
	require.Error(t, err, "an upload whose parts fail ends early")
	require.Equal(t, fault.Unavailable, fault.KindOf(err))
	require.ErrorContains(t, err, "refuses to write file s3://bucket/a.parquet: status 403")
	require.False(t, store.UnknownOutcome(err))
	require.ErrorContains(t, u.Abort(t.Context()), "refuses to write")
	before := f.countOf(http.MethodDelete)
	f.answerAll(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	require.NoError(t, u.Abort(t.Context()))
	require.NoError(t, u.Abort(t.Context()))
	require.Equal(t, before+1, f.countOf(http.MethodDelete)) // a part that was canceled may arrive late
}

// TestPartSizes: ten thousand parts are enough for a file of five terabytes, and those of a data
// file have one size.
//
// spec: storage-32
func TestPartSizes(t *testing.T) {
	total := 0
	for number := 1; number <= 10_000; number++ {
		size := s3.PartSize(number)
		require.GreaterOrEqual(t, size, 5<<20)
		require.LessOrEqual(t, size, 5<<30)
		if total < 1<<32 {
			require.Equal(t, partBytes, size)
		}
		total += size
	}
	require.GreaterOrEqual(t, total, 5<<40)
}
