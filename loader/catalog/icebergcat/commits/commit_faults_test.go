package commits_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"testing"

	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/store"
	"github.com/penstock/penstock/loader/catalog/commit"
	"github.com/penstock/penstock/loader/catalog/icebergcat"
	"github.com/penstock/penstock/loader/catalog/icebergcat/icebergtest"
	"github.com/penstock/penstock/loader/catalog/locator"
	"github.com/penstock/penstock/loader/catalog/restcat/restcattest"
)

// accident is what happens to one call of a catalog or its storage.
type accident string

// The accidents. After a death, no call has any effect.
const (
	fails       accident = "the call fails"
	answerLost  accident = "the answer is lost"
	deathBefore accident = "death before the call"
	deathAfter  accident = "death after the call"
)

// accidents counts the calls of one process, and has an accident at one of them.
type accidents struct {
	mu    sync.Mutex
	nth   int
	what  accident
	calls int
	dead  bool
	hit   string // the call that had the accident
}

var errAccident = fault.New(fault.Unavailable, "an accident").WithRemedy("try again")

// call makes a call, or has the accident.
func (a *accidents) call(name string, do func() error) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.dead {
		return errAccident
	}
	if a.calls++; a.calls != a.nth {
		return do()
	}
	a.hit = name
	a.dead = a.what == deathBefore || a.what == deathAfter
	if a.what == answerLost || a.what == deathAfter {
		_ = do()
	}
	return errAccident
}

// accidentStore is local storage with accidents.
type accidentStore struct {
	store.Local
	*accidents
}

func (s accidentStore) Open(ctx context.Context, location string, size int64) (out store.Object, err error) {
	err = s.call("open", func() error {
		out, err = s.Local.Open(ctx, location, size)
		return err
	})
	if err != nil && out != nil {
		_ = out.Close()
	}
	return out, err
}

func (s accidentStore) Create(ctx context.Context, location string, content *memory.Buffer) error {
	return s.call("create", func() error { return s.Local.Create(ctx, location, content) })
}

func (s accidentStore) Remove(ctx context.Context, location string) error {
	return s.call("remove", func() error { return s.Local.Remove(ctx, location) })
}

// accidentTables is a database with accidents.
type accidentTables struct {
	locator.Swapper
	*accidents
}

func (s accidentTables) Locate(ctx context.Context, t locator.Table) (out locator.Located, err error) {
	err = s.call("locate", func() error {
		out, err = s.Swapper.Locate(ctx, t)
		return err
	})
	return out, err
}

func (s accidentTables) Swap(ctx context.Context, t locator.Table, from, to string) (locator.Outcome, error) {
	return s.commit(func() (locator.Outcome, error) { return s.Swapper.Swap(ctx, t, from, to) })
}

func (s accidentTables) Insert(ctx context.Context, t locator.Table, location string) (locator.Outcome, error) {
	return s.commit(func() (locator.Outcome, error) { return s.Swapper.Insert(ctx, t, location) })
}

func (s accidentTables) commit(do func() (locator.Outcome, error)) (outcome locator.Outcome, err error) {
	called := s.call("commit", func() error {
		outcome, err = do()
		return nil
	})
	if called != nil {
		return locator.Unknown, called
	}
	return outcome, err
}

// accidental opens the catalog as a process that has an accident.
func accidental(t *testing.T, c *icebergtest.Changing, a *accidents) *icebergcat.Catalog {
	t.Helper()
	change := func(o *icebergcat.Options) { o.Store = accidentStore{accidents: a} }
	if c.Server == nil {
		o := c.Options()
		icebergtest.Allow(&o)
		change(&o)
		return icebergtest.OpenOver(t, o, func(s locator.Swapper) locator.Swapper { return accidentTables{s, a} })
	}
	out := c.Another(t, change)
	c.Server.Change(func(s *restcattest.Server) {
		s.Fault = func(w http.ResponseWriter, r *http.Request) bool {
			err := a.call(r.Method, func() error {
				if a.calls != a.nth || r.Method != http.MethodPost {
					return nil
				}
				// The server does what it is asked to, and its answer goes nowhere.
				wanted, err := io.ReadAll(r.Body)
				if err == nil {
					_, err = s.Commit([]string{"ml"}, "events", wanted)
				}
				return err
			})
			if err == nil {
				return false
			}
			status := http.StatusServiceUnavailable
			if a.dead {
				status = http.StatusForbidden // the client does not ask again
			}
			w.WriteHeader(status)
			return true
		}
	})
	return out
}

// eachAccident calls a change of an existing table once for each of its calls and each
// accident at it. Then another process repeats the change, and check is called.
func eachAccident(t *testing.T, c *icebergtest.Changing, setup func(t *testing.T), change func(tables *icebergcat.Catalog) error, check func(t *testing.T)) {
	t.Helper()
	for _, what := range []accident{fails, answerLost, deathBefore, deathAfter} {
		for nth := 1; ; nth++ {
			setup(t)
			a := &accidents{nth: nth, what: what}
			tables := accidental(t, c, a)
			err := change(tables)
			calm(c)
			if a.calls < nth {
				require.NoError(t, err)
				break
			}
			what := fmt.Sprintf("%s, call %d: %s", what, nth, a.hit)
			if a.dead {
				require.Error(t, err, what)
			}
			left := c.Orphans(t)
			for _, name := range left {
				require.True(t, commit.Owned(name), name)
			}
			if !a.dead && a.hit != "remove" && !commit.Uncertain(err) {
				require.Empty(t, left, "%s: %v", what, err)
			}
			require.NoError(t, change(c.Another(t, nil)), what)
			check(t)
		}
	}
}

// calm ends the accidents of the server.
func calm(c *icebergtest.Changing) {
	if c.Server != nil {
		c.Server.Change(func(s *restcattest.Server) { s.Fault = nil })
	}
}

// eachFast runs a test on SQLite and by REST.
func eachFast(t *testing.T, test func(t *testing.T, c *icebergtest.Changing)) {
	t.Run("sqlite", func(t *testing.T) { test(t, icebergtest.NewWriter(t).Changes(t)) })
	t.Run("rest", func(t *testing.T) { test(t, icebergtest.NewWriter(t).ChangesByREST(t)) })
}

// spec: write-22, write-23
func TestAccidentsLeaveNoPartialCommit(t *testing.T) {
	eachFast(t, func(t *testing.T, c *icebergtest.Changing) {
		c.Bucketed(t, "2")
		c.Append(t, "first", "a0")
		n, last := 0, "a0"
		var base int64
		var do commit.Change
		names := []string{}
		eachAccident(t, c, func(t *testing.T) {
			n++
			base = c.Load(t, icebergtest.Events).CurrentSnapshot().SnapshotID
			next := "a" + icebergtest.Itoa(int64(n))
			do = c.Replacement("replace-"+next, base, []string{last}, next)
			do.Mode, do.Add = commit.Overwrite, append(do.Add, c.File("b"+icebergtest.Itoa(int64(n)), 2))
			names, last = append(names, "b"+icebergtest.Itoa(int64(n))), next
		}, func(tables *icebergcat.Catalog) error {
			out, err := tables.Commit(t.Context(), do)
			if err == nil {
				require.Equal(t, base, out.Parent)
			}
			return err
		}, func(t *testing.T) {
			want := append([]string{last}, names...)
			slices.Sort(want)
			require.Equal(t, want, c.Files(t, ""))
			require.Equal(t, base, *c.Load(t, icebergtest.Events).CurrentSnapshot().ParentSnapshotID, "one commit, not two")
		})
	})
}

// spec: write-22
func TestAccidentsWhileABranchMoves(t *testing.T) {
	eachFast(t, func(t *testing.T, c *icebergtest.Changing) {
		c.Bucketed(t, "2")
		first := c.Append(t, "first", "a")
		second := c.Append(t, "second", "b")
		to := first.Snapshot
		eachAccident(t, c, func(t *testing.T) {
			from := c.Load(t, icebergtest.Events).CurrentSnapshot().SnapshotID
			to = map[int64]int64{first.Snapshot: second.Snapshot, second.Snapshot: first.Snapshot}[from]
		}, func(tables *icebergcat.Catalog) error {
			return tables.Move(t.Context(), commit.Move{Table: icebergtest.Events, Ref: "main", From: first.Snapshot + second.Snapshot - to, To: to})
		}, func(t *testing.T) {
			require.Equal(t, to, c.Load(t, icebergtest.Events).CurrentSnapshot().SnapshotID)
		})
	})
}

// A call whose change has no token finds its own snapshot after an answer was lost.
//
// spec: write-22
func TestAccidentsWithoutAToken(t *testing.T) {
	eachFast(t, func(t *testing.T, c *icebergtest.Changing) {
		c.Bucketed(t, "2")
		c.Append(t, "first", "a")
		want := []string{"a"}
		for nth := 1; ; nth++ {
			a := &accidents{nth: nth, what: answerLost}
			tables, name := accidental(t, c, a), "b"+icebergtest.Itoa(int64(nth))
			made, err := tables.Commit(t.Context(), commit.Change{Table: icebergtest.Events, Add: []commit.DataFile{c.File(name, 1)}})
			calm(c)
			if err == nil {
				want = append(want, name)
				require.Equal(t, made.Snapshot, c.Load(t, icebergtest.Events).CurrentSnapshot().SnapshotID)
			}
			slices.Sort(want)
			require.Equal(t, want, c.Files(t, ""), "call %d: %s: %v", nth, a.hit, err)
			if a.calls < nth {
				return
			}
		}
	})
}

// If the catalog refuses, the call ends at once, and leaves no file.
//
// spec: write-23
func TestRefusedCommitsLeaveNothing(t *testing.T) {
	c := icebergtest.NewWriter(t).ChangesByREST(t)
	c.Bucketed(t, "2")
	c.Append(t, "first", "a")
	before := c.BytesOf(t)
	posts := 0
	c.Server.Change(func(s *restcattest.Server) {
		s.Fault = func(w http.ResponseWriter, r *http.Request) bool {
			if r.Method == http.MethodPost {
				posts++
				w.WriteHeader(http.StatusForbidden)
			}
			return r.Method == http.MethodPost
		}
	})
	_, err := c.Tables.Commit(t.Context(), commit.Change{Table: icebergtest.Events, Token: icebergtest.Token("x"), Add: []commit.DataFile{c.File("x", 1)}})
	icebergtest.IsKind(t, err, fault.Unavailable, "allow the identity of the catalog's token or credential to commit to the table")
	require.Equal(t, 1, posts)
	calm(c)
	require.False(t, commit.Uncertain(err))
	require.Equal(t, before, c.BytesOf(t))
}

// If storage accepts a file and does not have it, nothing is committed.
//
// spec: write-23
func TestMissingNewFilesAreNotCommitted(t *testing.T) {
	for _, keep := range []int{-1, 0, 100} {
		c := icebergtest.NewWriter(t).Changes(t)
		c.Bucketed(t, "2")
		c.Append(t, "first", "a")
		location := c.Load(t, icebergtest.Events).MetadataLocation()
		tables := c.Another(t, func(o *icebergcat.Options) { o.Store = icebergtest.Forgetful{Keep: keep} })
		_, err := tables.Commit(t.Context(), commit.Change{Table: icebergtest.Events, Token: icebergtest.Token("x"), Add: []commit.DataFile{c.File("x", 1)}})
		icebergtest.IsKind(t, err, fault.Unavailable, "storage accepted a file but does not have it")
		require.False(t, commit.Uncertain(err))
		require.Equal(t, location, c.Load(t, icebergtest.Events).MetadataLocation())
		require.Empty(t, c.Orphans(t))
	}
}
