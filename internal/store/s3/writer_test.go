package s3_test

import (
	"fmt"
	"io"
	"net/http"
	"testing"

	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/store"
	"github.com/penstock/penstock/internal/store/s3"
	"github.com/penstock/penstock/internal/store/storetest"
)

func TestWrites(t *testing.T) {
	l := newLake(t)
	storetest.RunWriter(t, l.open(t, nil), func(name string) string { return "s3://" + bucket + "/table/metadata/" + name })
}

// A file is made by one request, whose condition is that there is none, and which is
// made again where that helps.
func TestCreateIsConditional(t *testing.T) {
	made := func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || string(body) != "text" || r.Header.Get("If-None-Match") != "*" || r.Method != http.MethodPut {
			w.WriteHeader(http.StatusTeapot)
		}
		w.Header().Set("ETag", `"one"`)
	}
	m := &marked{}
	for name, c := range map[string]struct {
		answers  []http.HandlerFunc
		kind     fault.Kind // 0: none
		text     string
		outcomes []s3.Outcome
	}{
		"made":       {[]http.HandlerFunc{made}, 0, "", []s3.Outcome{s3.OK}},
		"made again": {[]http.HandlerFunc{said(503, "SlowDown"), made}, 0, "", []s3.Outcome{s3.Throttled, s3.OK}},
		"made by the request that failed": {
			[]http.HandlerFunc{m.keep(said(500, "InternalError")), said(412, "PreconditionFailed"), m.mine},
			0,
			"",
			[]s3.Outcome{s3.Failed, s3.OK},
		},
		"made by another meanwhile": {
			[]http.HandlerFunc{said(500, "InternalError"), said(412, "PreconditionFailed"), other},
			fault.Conflict,
			"already exists",
			[]s3.Outcome{s3.Failed, s3.OK},
		},
		"two at once": {[]http.HandlerFunc{said(409, "ConditionalRequestConflict"), made}, 0, "", []s3.Outcome{s3.Broken, s3.OK}},
		"there": {
			[]http.HandlerFunc{said(412, "PreconditionFailed")},
			fault.Conflict,
			"file s3://bucket/a.parquet already exists",
			[]s3.Outcome{s3.OK},
		},
		"refused": {
			[]http.HandlerFunc{said(403, "AccessDenied")},
			fault.Unavailable,
			"refuses to write file s3://bucket/a.parquet: status 403, AccessDenied: no; let the credentials",
			[]s3.Outcome{s3.Refused},
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake(t, nil)
			for i, a := range c.answers {
				f.answers[i+1] = a
			}
			var outcomes []s3.Outcome
			s := f.open(t, func(o *s3.Options) {
				o.Observe = func(r s3.Request) {
					require.Equal(t, s3.OperationWrite, r.Operation)
					outcomes = append(outcomes, r.Outcome)
				}
			})
			err := s.Create(t.Context(), location, memory.NewBufferBytes([]byte("text")))
			if c.text == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, c.text)
				require.Equal(t, c.kind.String(), fault.KindOf(err).String())
			}
			require.Equal(t, fmt.Sprint(c.outcomes), fmt.Sprint(outcomes))
		})
	}
}

// TestRemoveWithoutAnswer: it is unknown whether the file is there.
//
// spec: storage-34
func TestRemoveWithoutAnswer(t *testing.T) {
	for name, c := range map[string]struct {
		answer          http.HandlerFunc
		failed, unknown bool
	}{
		"lost":    {cut, true, true},
		"refused": {said(403, "AccessDenied"), true, false},
		"removed": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }, false, false},
	} {
		f := newFake(t, nil)
		f.answers[0] = c.answer
		s := f.open(t, nil)
		for _, err := range []error{
			s.Remove(t.Context(), location), s.Discard(t.Context(), store.FolderEntry{Location: location, Upload: "one"}),
		} {
			require.Equal(t, c.failed, err != nil, name)
			require.Equal(t, c.unknown, store.UnknownOutcome(err), name)
		}
	}
}

func TestRemoveThatIsRefused(t *testing.T) {
	f := newFake(t, nil)
	f.answers[0] = said(403, "AccessDenied")
	err := f.open(t, nil).Remove(t.Context(), location)
	require.ErrorContains(t, err, "refuses to write file s3://bucket/a.parquet")
	require.Equal(t, fault.Unavailable.String(), fault.KindOf(err).String())
	require.Error(t, f.open(t, nil).Remove(t.Context(), "file:///a"))
}
