package restcat_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/catalog/locator"
	"github.com/penstock/penstock/loader/catalog/restcat"
	"github.com/penstock/penstock/loader/catalog/restcat/restcattest"
)

func pinned(there bool) locator.Tag {
	return locator.Tag{UUID: "u-1", Name: "penstock-9007199254740993", Snapshot: 9007199254740993, There: there, MaxAge: 7 * 24 * time.Hour}
}

// committing is a server of one table that says what it was asked to change.
func committing(t *testing.T) (*restcattest.Server, *[]string) {
	t.Helper()
	s, asked := serve(t), []string{}
	s.Commit = func(namespace []string, name string, wanted []byte) (bool, error) {
		asked = append(asked, strings.Join(namespace, ".")+"."+name+" "+string(wanted))
		s.Tables = only(`{"refs": {"penstock-9007199254740993": {"type": "tag", "snapshot-id": 9007199254740993}}}`)
		return true, nil
	}
	return s, &asked
}

// only are tables that all have one metadata.
func only(metadata string) restcattest.Tables {
	return func([]string, string) (restcattest.Table, bool) {
		return restcattest.Table{Location: "s3://b/m", Metadata: []byte(metadata)}, true
	}
}

// A response does not confirm a commit if its table lacks the tag, or if a redirect has
// turned the commit into a GET.
func TestUnconfirmedCommitsAreErrors(t *testing.T) {
	for _, metadata := range []string{
		`{}`, `{"refs": {}}`, `{"refs": {"penstock-9007199254740993": {"type": "tag", "snapshot-id": 9007199254740992}}}`,
		`{"refs": {"penstock-9007199254740993": {"type": "branch", "snapshot-id": 9007199254740993}}}`, `{"refs": 1}`,
	} {
		s, _ := committing(t)
		c, err := open(t, s, restcat.Options{})
		require.NoError(t, err)
		s.Commit = func([]string, string, []byte) (bool, error) {
			s.Tables = only(metadata)
			return true, nil
		}
		outcome, err := c.SetTag(t.Context(), events(), pinned(false))
		require.Equal(t, locator.Unknown, outcome, metadata)
		isFault(t, err, fault.Unavailable, "commit to table ml.events", "does not contain what was committed")
	}
	s, asked := committing(t)
	c, err := open(t, s, restcat.Options{})
	require.NoError(t, err)
	for _, status := range []int{http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther} {
		s.Change(func(s *restcattest.Server) {
			s.Fault = func(w http.ResponseWriter, r *http.Request) bool {
				if r.Method != http.MethodPost {
					return false
				}
				w.Header().Set("Location", r.URL.Path)
				w.WriteHeader(status)
				return true
			}
		})
		outcome, err := c.SetTag(t.Context(), events(), pinned(false))
		require.Equal(t, locator.Refused, outcome)
		isFault(t, err, fault.Unavailable, "answers 30")
		require.Empty(t, *asked)
	}
}

// A commit has the table and the position of the tag that it is based on as conditions.
func TestSetTag(t *testing.T) {
	s, asked := committing(t)
	c, err := open(t, s, restcat.Options{})
	require.NoError(t, err)
	for there, id := range map[bool]string{false: "null", true: "9007199254740993"} {
		*asked = nil
		outcome, err := c.SetTag(t.Context(), events(), pinned(there))
		require.NoError(t, err)
		require.Equal(t, locator.Committed, outcome)
		require.Len(t, *asked, 1)
		table, wanted, _ := strings.Cut((*asked)[0], " ")
		require.Equal(t, "ml.events", table)
		want := `{"requirements": [{"type": "assert-table-uuid", "uuid": "u-1"},
			{"type": "assert-ref-snapshot-id", "ref": "penstock-9007199254740993", "snapshot-id": ` + id + `}],
			"updates": [{"action": "set-snapshot-ref", "ref-name": "penstock-9007199254740993", "type": "tag",
			"snapshot-id": 9007199254740993, "max-ref-age-ms": 604800000}]}`
		require.JSONEq(t, want, wanted)
		require.Contains(t, wanted, `"snapshot-id":`+id, "with all of its digits")
	}
}

// The response determines whether the commit was made: only a conflict is a lost race, and
// everything that only another look at the table can settle is unknown.
func TestOutcomesOfCommits(t *testing.T) {
	for name, c := range map[string]struct {
		status  int
		outcome locator.Outcome
		text    string
		asked   int
	}{
		"a conflict":      {http.StatusConflict, locator.Lost, "", 1},
		"no table":        {http.StatusNotFound, locator.Lost, "", 1},
		"no right":        {http.StatusForbidden, locator.Refused, "commit to table ml.events: %s answers 403: no; allow the identity of the catalog's token or credential to commit to its tables, or leave pin_tags out", 1},
		"no such request": {http.StatusBadRequest, locator.Refused, "answers 400: no; allow the identity", 1},
		"only reads":      {http.StatusMethodNotAllowed, locator.Refused, "answers 405: no; allow the identity", 1},
		"unknown":         {http.StatusInternalServerError, locator.Unknown, "answers 500: no; check why the catalog does not respond", 6},
		"a gateway":       {http.StatusGatewayTimeout, locator.Unknown, "answers 504: no", 6},
	} {
		t.Run(name, func(t *testing.T) {
			s, _ := committing(t)
			l, err := open(t, s, restcat.Options{})
			require.NoError(t, err)
			s.Change(func(s *restcattest.Server) {
				s.Fault = func(w http.ResponseWriter, _ *http.Request) bool {
					w.WriteHeader(c.status)
					_, _ = w.Write([]byte(`{"error": {"message": "no", "type": "X"}}`))
					return true
				}
			})
			s.Asked()
			outcome, err := l.SetTag(t.Context(), events(), pinned(false))
			require.Equal(t, c.outcome, outcome)
			require.Len(t, s.Asked(), c.asked)
			if c.text == "" {
				require.NoError(t, err)
				return
			}
			isFault(t, err, fault.Unavailable, strings.Replace(c.text, "%s", s.URL, 1))
		})
	}
	t.Run("no connection", func(t *testing.T) {
		s, _ := committing(t)
		l, err := open(t, s, restcat.Options{Timeout: time.Minute})
		require.NoError(t, err)
		s.Change(func(s *restcattest.Server) {
			s.Fault = func(http.ResponseWriter, *http.Request) bool { panic(http.ErrAbortHandler) }
		})
		outcome, err := l.SetTag(t.Context(), events(), pinned(false))
		require.Equal(t, locator.Unknown, outcome)
		isFault(t, err, fault.Unavailable, "commit to table ml.events")
	})
}

// An expired token is also replaced during a commit.
func TestCommitsRenewTokens(t *testing.T) {
	s, asked := committing(t)
	s.Client, s.Secret = "penstock", "s3cret"
	c, err := open(t, s, restcat.Options{Properties: map[string]string{"credential": "penstock:s3cret"}})
	require.NoError(t, err)
	s.Revoke()
	outcome, err := c.SetTag(t.Context(), events(), pinned(false))
	require.NoError(t, err)
	require.Equal(t, locator.Committed, outcome)
	require.Len(t, *asked, 1)
}
