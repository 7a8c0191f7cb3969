package icebergcat_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/apache/iceberg-go"
	icetable "github.com/apache/iceberg-go/table"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/store"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/catalog/commit"
	"github.com/penstock/penstock/loader/catalog/icebergcat"
	"github.com/penstock/penstock/loader/catalog/icebergcat/tags"
	"github.com/penstock/penstock/loader/catalog/restcat/restcattest"
	"github.com/penstock/penstock/loader/catalog/sqlcat/postgrestest"
	"github.com/penstock/penstock/loader/dataset"
)

// tagging is a catalog that tags are committed to, and its owner.
type tagging struct {
	*writer
	*icebergcat.Catalog
}

// commits has a REST server commit to the writer's catalog: iceberg-go parses and checks the
// commit as the specification requires.
func (w *writer) commits(t *testing.T, s *restcattest.Server) {
	s.Commit = func(namespace []string, name string, wanted []byte) (bool, error) {
		var commit struct {
			Requirements icetable.Requirements `json:"requirements"`
			Updates      icetable.Updates      `json:"updates"`
		}
		if err := json.Unmarshal(wanted, &commit); err != nil {
			return false, err
		}
		id := append(append([]string{}, namespace...), name)
		tbl, err := w.LoadTable(t.Context(), id)
		if err != nil {
			return false, err
		}
		for _, r := range commit.Requirements {
			if r.Validate(tbl.Metadata()) != nil {
				return false, nil
			}
		}
		_, _, err = w.CommitTable(t.Context(), id, commit.Requirements, commit.Updates)
		if err != nil {
			w.lost.Add(1)
		}
		if errors.Is(err, icetable.ErrCommitFailed) {
			return false, nil // another commit came between
		}
		return err == nil, err
	}
}

// eachTagging runs a test on every kind of catalog that takes tags.
func eachTagging(t *testing.T, test func(t *testing.T, c tagging)) {
	t.Run("sqlite", func(t *testing.T) {
		w := newWriter(t)
		test(t, tagging{w, w.open(t)})
	})
	t.Run("postgres", func(t *testing.T) {
		w := newPostgresWriter(t, postgrestest.Start(t))
		test(t, tagging{w, w.open(t)})
	})
	t.Run("rest", func(t *testing.T) {
		w := newWriter(t)
		s := w.serve(t)
		w.commits(t, s)
		test(t, tagging{w, openREST(t, s, nil)})
	})
}

// table makes a table with a number of snapshots, and pins the first one.
func (w *writer) table(t *testing.T, c catalog.Catalog, snapshots int) *catalog.Table {
	t.Helper()
	spec := w.create(t, events, idSchema()).Spec()
	var first int64
	for i := range snapshots {
		id := w.add(t, events, "", dataFile(t, spec, location(string(rune('a'+i))), nil, nil))
		if i == 0 {
			first = id
		}
	}
	pinned, err := c.Table(t.Context(), events, dataset.Ref{Snapshot: first})
	require.NoError(t, err)
	return pinned
}

// tags are those of Penstock's, and how old their snapshots may become.
func (w *writer) tags(t *testing.T) map[int64]time.Duration {
	t.Helper()
	out := map[int64]time.Duration{}
	for name, ref := range w.load(t, events).Metadata().Refs() {
		if strings.HasPrefix(name, tags.TagPrefix) {
			require.Equal(t, icetable.TagRef, ref.SnapshotRefType)
			require.NotNil(t, ref.MaxRefAgeMs, "it ends by itself")
			out[ref.SnapshotID] = time.Duration(*ref.MaxRefAgeMs) * time.Millisecond
		}
	}
	return out
}

// metadataFiles are how many the table has.
func (w *writer) metadataFiles(t *testing.T) int {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(filepath.Dir(local(t, w.load(t, events).MetadataLocation())), "*.metadata.json"))
	require.NoError(t, err)
	return len(found)
}

func (w *writer) committed(t *testing.T, snapshot int64) time.Time {
	t.Helper()
	return time.UnixMilli(w.load(t, events).Metadata().SnapshotByID(snapshot).TimestampMs)
}

// expireAll expires all that nothing keeps, as iceberg-go does it: by Java's rules.
func (w *writer) expireAll(t *testing.T) {
	t.Helper()
	tx := w.load(t, events).NewTransaction()
	require.NoError(t, tx.ExpireSnapshots(icetable.WithOlderThan(0), icetable.WithRetainLast(1), icetable.WithPostCommit(false)))
	_, err := tx.Commit(t.Context())
	require.NoError(t, err)
}

func until(least, wanted time.Time) tags.Until {
	return tags.Until{Least: least, Wanted: wanted}
}

// The metadata file of a tag is known by its name, should the tag not be set in the end.
//
// spec: orphan-1
func TestMetadataFilesOfTagsAreOwned(t *testing.T) {
	w := newWriter(t)
	c := w.open(t)
	wanted := time.Now().Add(time.Hour)
	_, err := c.Tag(t.Context(), w.table(t, c, 1), until(wanted, wanted))
	require.NoError(t, err)
	require.True(t, commit.Owned(w.load(t, events).MetadataLocation()))
}

// spec: pin-6, pin-8, pin-9
func TestTagKeepsASnapshotUntilItEnds(t *testing.T) {
	eachTagging(t, func(t *testing.T, c tagging) {
		pinned := c.table(t, c.Catalog, 3)
		id := pinned.Pin.Snapshot
		wanted := time.Now().Add(time.Hour).Truncate(time.Millisecond)
		ends, err := c.Tag(t.Context(), pinned, until(wanted, wanted))
		require.NoError(t, err)
		require.True(t, ends.Equal(wanted), "%s is not %s", ends, wanted)
		require.Equal(t, map[int64]time.Duration{id: wanted.Sub(c.committed(t, id))}, c.tags(t), "an age is that of the snapshot")

		// The pin is what it was, and another engine's expiry leaves the snapshot.
		c.expireAll(t)
		require.Len(t, c.load(t, events).Metadata().Snapshots(), 2)
		again, err := c.At(t.Context(), events, pinned.Pin)
		require.NoError(t, err)
		require.Equal(t, pinned.Pin, again.Pin)
		files, err := c.Files(t.Context(), again, []int{1}, nil)
		require.NoError(t, err)
		require.Len(t, files, 1)

		// A tag that holds for long enough is left alone.
		before := c.load(t, events).MetadataLocation()
		ends, err = c.Tag(t.Context(), pinned, until(wanted, wanted.Add(time.Hour)))
		require.NoError(t, err)
		require.True(t, ends.Equal(wanted))
		require.Equal(t, before, c.load(t, events).MetadataLocation())

		// One that does not is set again: there is one tag.
		later := wanted.Add(time.Hour)
		ends, err = c.Tag(t.Context(), pinned, until(wanted.Add(time.Millisecond), later))
		require.NoError(t, err)
		require.True(t, ends.Equal(later))
		require.Equal(t, map[int64]time.Duration{id: later.Sub(c.committed(t, id))}, c.tags(t))

		// Once it has ended nothing is left of it: expiry removes tag and snapshot.
		c.update(t, events, icetable.NewSetSnapshotRefUpdate(tags.TagPrefix+itoa(id), id, icetable.TagRef, 1, 0, 0))
		c.expireAll(t)
		require.Empty(t, c.tags(t))
		require.Len(t, c.load(t, events).Metadata().Snapshots(), 1)
		_, err = c.Tag(t.Context(), pinned, until(wanted, wanted))
		require.Equal(t, fault.Expired.String(), fault.KindOf(err).String(), "%v", err)
		require.Empty(t, c.tags(t))
	})
}

func itoa(id int64) string { return string(must(json.Marshal(id))) }

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// Many servers that tag the same snapshot at once, while others commit, leave one tag and no
// file that the catalog does not refer to.
//
// spec: pin-7
func TestTagsThatRace(t *testing.T) {
	eachTagging(t, func(t *testing.T, c tagging) {
		pinned := c.table(t, c.Catalog, 2)
		before := c.metadataFiles(t)
		wanted := time.Now().Add(time.Hour)
		group, ctx := errgroup.WithContext(t.Context())
		for range 6 {
			group.Go(func() error {
				_, err := c.Tag(ctx, pinned, until(wanted, wanted))
				return err
			})
		}
		for {
			_, _, err := c.CommitTable(t.Context(), ident(events), nil, []icetable.Update{icetable.NewSetPropertiesUpdate(iceberg.Properties{"a": "b"})})
			if err == nil {
				break
			}
			c.lost.Add(1)
		}
		require.NoError(t, group.Wait())
		require.Len(t, c.tags(t), 1)
		require.Equal(t, "b", c.load(t, events).Properties()["a"], "what others committed stays")
		require.LessOrEqual(t, c.metadataFiles(t), before+2+int(c.lost.Load()))
	})
}

// spec: pin-9
func TestTagsThatAreRefused(t *testing.T) {
	eachTagging(t, func(t *testing.T, c tagging) {
		pinned := c.table(t, c.Catalog, 2)
		name := tags.TagPrefix + itoa(pinned.Pin.Snapshot)
		wanted := time.Now().Add(time.Hour)
		refused := func(kind fault.Kind, text string) {
			t.Helper()
			before := c.metadataFiles(t)
			_, err := c.Tag(t.Context(), pinned, until(wanted, wanted))
			require.Equal(t, kind.String(), fault.KindOf(err).String(), "%v", err)
			require.ErrorContains(t, err, text)
			require.Equal(t, events, fault.As(err).Table)
			require.Equal(t, before, c.metadataFiles(t))
		}
		current := c.load(t, events).CurrentSnapshot().SnapshotID
		c.setRef(t, events, name, current, icetable.TagRef)
		refused(fault.Conflict, "table ml.events has a tag called "+name+" at snapshot "+itoa(current)+", which is not one of Penstock's; remove it")
		c.update(t, events, icetable.NewRemoveSnapshotRefUpdate(name))
		c.setRef(t, events, name, pinned.Pin.Snapshot, icetable.BranchRef)
		refused(fault.Conflict, "has a branch called "+name)
		c.update(t, events, icetable.NewRemoveSnapshotRefUpdate(name))

		require.NoError(t, c.DropTable(t.Context(), ident(events)))
		c.create(t, events, idSchema())
		refused(fault.Expired, "was dropped and created again")
		require.NoError(t, c.DropTable(t.Context(), ident(events)))
		_, err := c.Tag(t.Context(), pinned, until(wanted, wanted))
		require.Equal(t, fault.NotFound.String(), fault.KindOf(err).String(), "%v", err)
	})
}

// A tag without an age of its own expires by the table's setting, or never.
func TestTagsWithoutAnAge(t *testing.T) {
	w := newWriter(t)
	c := tagging{w, w.open(t)}
	pinned := c.table(t, c.Catalog, 2)
	c.setRef(t, events, tags.TagPrefix+itoa(pinned.Pin.Snapshot), pinned.Pin.Snapshot, icetable.TagRef)
	before := c.load(t, events).MetadataLocation()
	wanted := time.Now().Add(time.Hour)
	ends, err := c.Tag(t.Context(), pinned, until(wanted, wanted))
	require.NoError(t, err)
	require.True(t, ends.After(wanted.AddDate(1000, 0, 0)))
	require.Equal(t, before, c.load(t, events).MetadataLocation())
	c.update(t, events, icetable.NewSetPropertiesUpdate(iceberg.Properties{"history.expire.max-ref-age-ms": "60000"}))
	ends, err = c.Tag(t.Context(), pinned, until(wanted, wanted))
	require.NoError(t, err)
	require.WithinDuration(t, wanted, ends, time.Millisecond)
	require.Len(t, c.tags(t), 1)
}

func TestFoldersTakeNoTags(t *testing.T) {
	c, err := icebergcat.Open(t.Context(), icebergcat.Options{Name: "lake", Type: "directory", Warehouse: t.TempDir()})
	require.NoError(t, err)
	defer c.Close()
	require.ErrorContains(t, c.Tags(), "pin_tags: a catalog of type directory cannot commit tags; leave pin_tags out")
	require.NoError(t, newWriter(t).open(t).Tags())
}

// If the outcome of a commit is unknown, the server checks: a commit that was made is found,
// and one that was not made is repeated.
func TestTagsWithAnUnknownOutcome(t *testing.T) {
	for name, made := range map[string]bool{"it was made": true, "it was not": false} {
		t.Run(name, func(t *testing.T) {
			w := newWriter(t)
			s := w.serve(t)
			w.commits(t, s)
			c := tagging{w, openREST(t, s, nil)}
			pinned := c.table(t, c.Catalog, 1)
			posts := 0
			s.Change(func(s *restcattest.Server) {
				s.Fault = func(w http.ResponseWriter, r *http.Request) bool {
					if r.Method != http.MethodPost {
						return false
					}
					if posts++; posts > 1 {
						return false
					}
					if wanted, err := io.ReadAll(r.Body); made && err == nil {
						_, err = s.Commit([]string{"ml"}, "events", wanted)
						assert.NoError(t, err)
					}
					w.WriteHeader(http.StatusInternalServerError)
					return true
				}
			})
			wanted := time.Now().Add(time.Hour)
			_, err := c.Tag(t.Context(), pinned, until(wanted, wanted))
			require.NoError(t, err)
			require.Equal(t, 2, posts)
			require.Len(t, c.tags(t), 1)
		})
	}
}

// If the catalog's server refuses a tag, the query gets that error, after one attempt.
func TestRefusedTagsAreNotRetried(t *testing.T) {
	w := newWriter(t)
	s := w.serve(t)
	w.commits(t, s)
	c := tagging{w, openREST(t, s, nil)}
	pinned := c.table(t, c.Catalog, 1)
	s.Change(func(s *restcattest.Server) {
		s.Fault = func(w http.ResponseWriter, r *http.Request) bool {
			if r.Method == http.MethodPost {
				w.WriteHeader(http.StatusForbidden)
			}
			return r.Method == http.MethodPost
		}
	})
	s.Asked()
	wanted := time.Now().Add(time.Hour)
	_, err := c.Tag(t.Context(), pinned, until(wanted, wanted))
	require.Equal(t, fault.Unavailable.String(), fault.KindOf(err).String())
	require.ErrorContains(t, err, "commit to its tables, or leave pin_tags out")
	require.Len(t, s.Asked(), 2, "the look and the commit")
}

// If others commit all the time, or the outcome of a commit stays unknown, the attempts end.
func TestSettingATagGivesUp(t *testing.T) {
	for name, c := range map[string]struct {
		status, posts int
		kind          fault.Kind
		text          string
	}{
		"others are faster": {http.StatusConflict, 8, fault.Conflict, "since others committed first"},
		"always unknown":    {http.StatusInternalServerError, 3 * 6, fault.Unavailable, "answers 500"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWriter(t)
			s := w.serve(t)
			w.commits(t, s)
			reader := tagging{w, openREST(t, s, nil)}
			pinned := reader.table(t, reader.Catalog, 1)
			posts := 0
			s.Change(func(s *restcattest.Server) {
				s.Fault = func(w http.ResponseWriter, r *http.Request) bool {
					if r.Method == http.MethodPost {
						posts++
						w.WriteHeader(c.status)
					}
					return r.Method == http.MethodPost
				}
			})
			wanted := time.Now().Add(time.Hour)
			_, err := reader.Tag(t.Context(), pinned, until(wanted, wanted))
			require.Equal(t, c.kind.String(), fault.KindOf(err).String(), "%v", err)
			require.ErrorContains(t, err, c.text)
			require.Equal(t, c.posts, posts)
			require.Empty(t, reader.tags(t))
		})
	}
}

// forgetful takes files, and does not have them, or not whole.
type forgetful struct {
	store.Local
	keep int
}

func (f forgetful) Create(ctx context.Context, location string, content []byte) error {
	if f.keep < 0 {
		return nil
	}
	return f.Local.Create(ctx, location, content[:min(f.keep, len(content))])
}

// If storage reports that it wrote a metadata file but does not have it, the catalog keeps
// the old file: otherwise the table would be lost.
func TestMissingNewMetadataIsNotCommitted(t *testing.T) {
	for _, keep := range []int{-1, 0, 100} {
		w := newWriter(t)
		o := w.options()
		o.Store = forgetful{keep: keep}
		c, err := icebergcat.Open(t.Context(), o)
		require.NoError(t, err)
		t.Cleanup(c.Close)
		pinned := w.table(t, c, 2)
		before := w.load(t, events).MetadataLocation()
		_, err = c.Tag(t.Context(), pinned, until(time.Now().Add(time.Hour), time.Now().Add(2*time.Hour)))
		require.Equal(t, fault.Unavailable.String(), fault.KindOf(err).String(), "%v", err)
		require.ErrorContains(t, err, "storage accepted a file but does not have it")
		require.Equal(t, before, w.load(t, events).MetadataLocation())
		require.Empty(t, w.tags(t))
	}
}
