package tags_test

import (
	"io"
	"net/http"
	"path/filepath"
	"testing"
	"time"

	"github.com/apache/iceberg-go"
	icetable "github.com/apache/iceberg-go/table"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/catalog/commit"
	"github.com/penstock/penstock/loader/catalog/icebergcat"
	"github.com/penstock/penstock/loader/catalog/icebergcat/icebergtest"
	"github.com/penstock/penstock/loader/catalog/restcat/restcattest"
	"github.com/penstock/penstock/loader/catalog/sqlcat/postgrestest"
)

// tagging is a catalog that tags are committed to, and its owner.
type tagging struct {
	*icebergtest.Writer
	*icebergcat.Catalog
}

// eachTagging runs a test on every kind of catalog that takes tags.
func eachTagging(t *testing.T, test func(t *testing.T, c tagging)) {
	t.Run("sqlite", func(t *testing.T) {
		w := icebergtest.NewWriter(t)
		test(t, tagging{w, w.Open(t)})
	})
	t.Run("postgres", func(t *testing.T) {
		w := icebergtest.NewPostgresWriter(t, postgrestest.Start(t))
		test(t, tagging{w, w.Open(t)})
	})
	t.Run("rest", func(t *testing.T) {
		w := icebergtest.NewWriter(t)
		s := w.Serve(t)
		w.Commits(t, s)
		test(t, tagging{w, icebergtest.OpenREST(t, s, nil)})
	})
}

// metadataFiles are how many the table has.
func metadataFiles(t *testing.T, w *icebergtest.Writer) int {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(filepath.Dir(icebergtest.Local(t, w.Load(t, icebergtest.Events).MetadataLocation())), "*.metadata.json"))
	require.NoError(t, err)
	return len(found)
}

// expireAll expires all that nothing keeps, as iceberg-go does it: by Java's rules.
func expireAll(t *testing.T, w *icebergtest.Writer) {
	t.Helper()
	tx := w.Load(t, icebergtest.Events).NewTransaction()
	require.NoError(t, tx.ExpireSnapshots(icetable.WithOlderThan(0), icetable.WithRetainLast(1), icetable.WithPostCommit(false)))
	_, err := tx.Commit(t.Context())
	require.NoError(t, err)
}

// The metadata file of a tag is known by its name, should the tag not be set in the end.
//
// spec: orphan-1
func TestMetadataFilesOfTagsAreOwned(t *testing.T) {
	w := icebergtest.NewWriter(t)
	c := w.Open(t)
	wanted := time.Now().Add(time.Hour)
	_, err := c.Tag(t.Context(), w.Pinned(t, c, 1), icebergtest.Until(wanted, wanted))
	require.NoError(t, err)
	require.True(t, commit.Owned(w.Load(t, icebergtest.Events).MetadataLocation()))
}

// spec: pin-6, pin-8, pin-9
func TestTagKeepsASnapshotUntilItEnds(t *testing.T) {
	eachTagging(t, func(t *testing.T, c tagging) {
		pinned := c.Pinned(t, c.Catalog, 3)
		id := pinned.Pin.Snapshot
		wanted := time.Now().Add(time.Hour).Truncate(time.Millisecond)
		ends, err := c.Tag(t.Context(), pinned, icebergtest.Until(wanted, wanted))
		require.NoError(t, err)
		require.True(t, ends.Equal(wanted), "%s is not %s", ends, wanted)
		require.Equal(t, map[int64]time.Duration{id: wanted.Sub(c.Committed(t, id))}, c.TagAges(t), "an age is that of the snapshot")

		// The pin is what it was, and another engine's expiry leaves the snapshot.
		expireAll(t, c.Writer)
		require.Len(t, c.Load(t, icebergtest.Events).Metadata().Snapshots(), 2)
		again, err := c.At(t.Context(), icebergtest.Events, pinned.Pin)
		require.NoError(t, err)
		require.Equal(t, pinned.Pin, again.Pin)
		files, err := c.Files(t.Context(), again, []int{1}, nil)
		require.NoError(t, err)
		require.Len(t, files, 1)

		// A tag that holds for long enough is left alone.
		before := c.Load(t, icebergtest.Events).MetadataLocation()
		ends, err = c.Tag(t.Context(), pinned, icebergtest.Until(wanted, wanted.Add(time.Hour)))
		require.NoError(t, err)
		require.True(t, ends.Equal(wanted))
		require.Equal(t, before, c.Load(t, icebergtest.Events).MetadataLocation())

		// One that does not is set again: there is one tag.
		later := wanted.Add(time.Hour)
		ends, err = c.Tag(t.Context(), pinned, icebergtest.Until(wanted.Add(time.Millisecond), later))
		require.NoError(t, err)
		require.True(t, ends.Equal(later))
		require.Equal(t, map[int64]time.Duration{id: later.Sub(c.Committed(t, id))}, c.TagAges(t))

		// Once it has ended nothing is left of it: expiry removes tag and snapshot.
		c.Update(t, icebergtest.Events, icetable.NewSetSnapshotRefUpdate(catalog.PinTagPrefix+icebergtest.Itoa(id), id, icetable.TagRef, 1, 0, 0))
		expireAll(t, c.Writer)
		require.Empty(t, c.TagAges(t))
		require.Len(t, c.Load(t, icebergtest.Events).Metadata().Snapshots(), 1)
		_, err = c.Tag(t.Context(), pinned, icebergtest.Until(wanted, wanted))
		require.Equal(t, fault.Expired.String(), fault.KindOf(err).String(), "%v", err)
		require.Empty(t, c.TagAges(t))
	})
}

// Many servers that tag the same snapshot at once, while others commit, leave one tag and no
// file that the catalog does not refer to.
//
// spec: pin-7
func TestTagsThatRace(t *testing.T) {
	eachTagging(t, func(t *testing.T, c tagging) {
		pinned := c.Pinned(t, c.Catalog, 2)
		before := metadataFiles(t, c.Writer)
		wanted := time.Now().Add(time.Hour)
		group, ctx := errgroup.WithContext(t.Context())
		for range 6 {
			group.Go(func() error {
				_, err := c.Tag(ctx, pinned, icebergtest.Until(wanted, wanted))
				return err
			})
		}
		for {
			_, _, err := c.CommitTable(t.Context(), icebergtest.Ident(icebergtest.Events), nil, []icetable.Update{icetable.NewSetPropertiesUpdate(iceberg.Properties{"a": "b"})})
			if err == nil {
				break
			}
			c.Lost.Add(1)
		}
		require.NoError(t, group.Wait())
		require.Len(t, c.TagAges(t), 1)
		require.Equal(t, "b", c.Load(t, icebergtest.Events).Properties()["a"], "what others committed stays")
		require.LessOrEqual(t, metadataFiles(t, c.Writer), before+2+int(c.Lost.Load()))
	})
}

// spec: pin-9
func TestTagsThatAreRefused(t *testing.T) {
	eachTagging(t, func(t *testing.T, c tagging) {
		pinned := c.Pinned(t, c.Catalog, 2)
		name := catalog.PinTagPrefix + icebergtest.Itoa(pinned.Pin.Snapshot)
		wanted := time.Now().Add(time.Hour)
		refused := func(kind fault.Kind, text string) {
			t.Helper()
			before := metadataFiles(t, c.Writer)
			_, err := c.Tag(t.Context(), pinned, icebergtest.Until(wanted, wanted))
			require.Equal(t, kind.String(), fault.KindOf(err).String(), "%v", err)
			require.ErrorContains(t, err, text)
			require.Equal(t, icebergtest.Events, fault.As(err).Table)
			require.Equal(t, before, metadataFiles(t, c.Writer))
		}
		current := c.Load(t, icebergtest.Events).CurrentSnapshot().SnapshotID
		c.SetRef(t, icebergtest.Events, name, current, icetable.TagRef)
		refused(fault.Conflict, "table ml.events has a tag called "+name+" at snapshot "+icebergtest.Itoa(current)+", which is not one of Penstock's; remove it")
		c.Update(t, icebergtest.Events, icetable.NewRemoveSnapshotRefUpdate(name))
		c.SetRef(t, icebergtest.Events, name, pinned.Pin.Snapshot, icetable.BranchRef)
		refused(fault.Conflict, "has a branch called "+name)
		c.Update(t, icebergtest.Events, icetable.NewRemoveSnapshotRefUpdate(name))

		require.NoError(t, c.DropTable(t.Context(), icebergtest.Ident(icebergtest.Events)))
		c.Create(t, icebergtest.Events, icebergtest.IDSchema())
		refused(fault.Expired, "was dropped and created again")
		require.NoError(t, c.DropTable(t.Context(), icebergtest.Ident(icebergtest.Events)))
		_, err := c.Tag(t.Context(), pinned, icebergtest.Until(wanted, wanted))
		require.Equal(t, fault.NotFound.String(), fault.KindOf(err).String(), "%v", err)
	})
}

// A tag without an age of its own expires by the table's setting, or never.
func TestTagsWithoutAnAge(t *testing.T) {
	w := icebergtest.NewWriter(t)
	c := tagging{w, w.Open(t)}
	pinned := c.Pinned(t, c.Catalog, 2)
	c.SetRef(t, icebergtest.Events, catalog.PinTagPrefix+icebergtest.Itoa(pinned.Pin.Snapshot), pinned.Pin.Snapshot, icetable.TagRef)
	before := c.Load(t, icebergtest.Events).MetadataLocation()
	wanted := time.Now().Add(time.Hour)
	ends, err := c.Tag(t.Context(), pinned, icebergtest.Until(wanted, wanted))
	require.NoError(t, err)
	require.True(t, ends.After(wanted.AddDate(1000, 0, 0)))
	require.Equal(t, before, c.Load(t, icebergtest.Events).MetadataLocation())
	c.Update(t, icebergtest.Events, icetable.NewSetPropertiesUpdate(iceberg.Properties{"history.expire.max-ref-age-ms": "60000"}))
	ends, err = c.Tag(t.Context(), pinned, icebergtest.Until(wanted, wanted))
	require.NoError(t, err)
	require.WithinDuration(t, wanted, ends, time.Millisecond)
	require.Len(t, c.TagAges(t), 1)
}

func TestFoldersTakeNoTags(t *testing.T) {
	c, err := icebergcat.Open(t.Context(), icebergcat.Options{Name: "lake", Type: "directory", Warehouse: t.TempDir()})
	require.NoError(t, err)
	defer c.Close()
	require.ErrorContains(t, c.Tags(), "pin_tags: a catalog of type directory cannot commit tags; leave pin_tags out")
	require.NoError(t, icebergtest.NewWriter(t).Open(t).Tags())
}

// If the outcome of a commit is unknown, the server checks: a commit that was made is found,
// and one that was not made is repeated.
func TestTagsWithAnUnknownOutcome(t *testing.T) {
	for name, made := range map[string]bool{"it was made": true, "it was not": false} {
		t.Run(name, func(t *testing.T) {
			w := icebergtest.NewWriter(t)
			s := w.Serve(t)
			w.Commits(t, s)
			c := tagging{w, icebergtest.OpenREST(t, s, nil)}
			pinned := c.Pinned(t, c.Catalog, 1)
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
			_, err := c.Tag(t.Context(), pinned, icebergtest.Until(wanted, wanted))
			require.NoError(t, err)
			require.Equal(t, 2, posts)
			require.Len(t, c.TagAges(t), 1)
		})
	}
}

// If the catalog's server refuses a tag, the query gets that error, after one attempt.
func TestRefusedTagsAreNotRetried(t *testing.T) {
	w := icebergtest.NewWriter(t)
	s := w.Serve(t)
	w.Commits(t, s)
	c := tagging{w, icebergtest.OpenREST(t, s, nil)}
	pinned := c.Pinned(t, c.Catalog, 1)
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
	_, err := c.Tag(t.Context(), pinned, icebergtest.Until(wanted, wanted))
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
			w := icebergtest.NewWriter(t)
			s := w.Serve(t)
			w.Commits(t, s)
			reader := tagging{w, icebergtest.OpenREST(t, s, nil)}
			pinned := reader.Pinned(t, reader.Catalog, 1)
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
			_, err := reader.Tag(t.Context(), pinned, icebergtest.Until(wanted, wanted))
			require.Equal(t, c.kind.String(), fault.KindOf(err).String(), "%v", err)
			require.ErrorContains(t, err, c.text)
			require.Equal(t, c.posts, posts)
			require.Empty(t, reader.TagAges(t))
		})
	}
}

// If storage reports that it wrote a metadata file but does not have it, the catalog keeps
// the old file: otherwise the table would be lost.
func TestMissingNewMetadataIsNotCommitted(t *testing.T) {
	for _, keep := range []int{-1, 0, 100} {
		w := icebergtest.NewWriter(t)
		o := w.Options()
		o.Store = icebergtest.Forgetful{Keep: keep}
		c, err := icebergcat.Open(t.Context(), o)
		require.NoError(t, err)
		t.Cleanup(c.Close)
		pinned := w.Pinned(t, c, 2)
		before := w.Load(t, icebergtest.Events).MetadataLocation()
		_, err = c.Tag(t.Context(), pinned, icebergtest.Until(time.Now().Add(time.Hour), time.Now().Add(2*time.Hour)))
		require.Equal(t, fault.Unavailable.String(), fault.KindOf(err).String(), "%v", err)
		require.ErrorContains(t, err, "storage accepted a file but does not have it")
		require.Equal(t, before, w.Load(t, icebergtest.Events).MetadataLocation())
		require.Empty(t, w.TagAges(t))
	}
}
