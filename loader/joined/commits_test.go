package joined_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/scenario"
	"github.com/penstock/penstock/joiner/rule"
	"github.com/penstock/penstock/loader"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/loadertest"
)

// commit is a committed file: its name, the rank of its snapshot, its sequence number
// and its rows.
type commit struct {
	name     string
	rank     int
	sequence int64
	rows     []string
}

// place creates a table of one bucket with one file per commit.
func place(t *testing.T, w *scenario.World, name, header string, commits []commit) {
	t.Helper()
	fields, err := scenario.Fields(header)
	require.NoError(t, err)
	spec, err := scenario.Spec("bucket(1,id)", fields)
	require.NoError(t, err)
	var files []scenario.File
	for i, c := range commits {
		rows, err := scenario.Rows(fields, c.rows)
		require.NoError(t, err)
		files = append(files, scenario.File{
			Part:     scenario.Part{Partition: []any{int64(0)}, Rows: rows},
			Location: "mem:///" + name + "/" + c.name, Bytes: 100, Sequence: c.sequence, Commit: i + 1, Rank: c.rank,
		})
	}
	require.NoError(t, w.Place(&catalog.Table{Name: name, Fields: fields, Specs: map[int]catalog.Spec{0: spec}}, files))
}

// written6 returns six commits of one key, in files whose names sort differently.
func written6(ranks ...int) []commit {
	var commits []commit
	for i, name := range []string{"d", "f", "a", "c", "e", "b"} {
		commits = append(commits, commit{name: name, rank: ranks[i], rows: []string{fmt.Sprintf("1 %d %d", i, i/3)}})
	}
	return commits
}

// TestFirstAndLastGoByCommits checks that first and last follow the commits of format
// version 1 files, which have no sequence numbers and whose names do not show their
// order.
//
// spec: join-87, join-88, join-89, join-95
func TestFirstAndLastGoByCommits(t *testing.T) {
	t.Parallel()
	upgraded := append(written6(1, 2, 3, 4, 5, 6), commit{name: "0", sequence: 7, rows: []string{"1 6 1"}})
	for name, c := range map[string]struct {
		staging    []commit
		duplicates rule.Duplicates
		order      []dataset.OrderBy
		want       []string
		refused    bool
		tie        string
	}{
		"first":                         {staging: written6(1, 2, 3, 4, 5, 6), duplicates: rule.DuplicatesFirst, want: []string{"[1 0]"}},
		"last":                          {staging: written6(1, 2, 3, 4, 5, 6), duplicates: rule.DuplicatesLast, want: []string{"[1 5]"}},
		"all":                           {staging: written6(1, 2, 3, 4, 5, 6), duplicates: rule.DuplicatesAll, want: []string{"[1 2]", "[1 5]", "[1 3]", "[1 0]", "[1 4]", "[1 1]"}},
		"a tie":                         {staging: written6(1, 2, 3, 4, 5, 6), duplicates: rule.DuplicatesLast, order: []dataset.OrderBy{{Column: "half", Descending: true}}, want: []string{"[1 2]"}},
		"last, upgraded":                {staging: upgraded, duplicates: rule.DuplicatesLast, want: []string{"[1 6]"}},
		"first, upgraded":               {staging: upgraded, duplicates: rule.DuplicatesFirst, want: []string{"[1 0]"}},
		"the oldest has no rank":        {staging: written6(catalog.BeforeRanks, 1, 2, 3, 4, 5), duplicates: rule.DuplicatesFirst, want: []string{"[1 0]"}},
		"two have no rank":              {staging: written6(catalog.BeforeRanks, catalog.BeforeRanks, 1, 2, 3, 4), duplicates: rule.DuplicatesLast, refused: true},
		"two have no rank, all":         {staging: written6(catalog.BeforeRanks, catalog.BeforeRanks, 1, 2, 3, 4)[:2], duplicates: rule.DuplicatesAll, want: []string{"[1 0]", "[1 1]"}},
		"one is not on the whole chain": {staging: written6(1, 2, catalog.Unranked, 3, 4, 5), duplicates: rule.DuplicatesLast, refused: true},
		"order_by decides": {
			staging: written6(catalog.BeforeRanks, catalog.BeforeRanks, catalog.Unranked, catalog.Unranked, 1, 2), duplicates: rule.DuplicatesLast,
			order: []dataset.OrderBy{{Column: "v"}}, want: []string{"[1 5]"},
		},
		"order_by decides, first": {
			staging: written6(catalog.BeforeRanks, catalog.BeforeRanks, catalog.Unranked, catalog.Unranked, 1, 2), duplicates: rule.DuplicatesFirst,
			order: []dataset.OrderBy{{Column: "v", Descending: true}}, want: []string{"[1 5]"},
		},
		"a tie that is not asked for": {
			staging: written6(catalog.BeforeRanks, catalog.BeforeRanks, 1, 2, 3, 4), duplicates: rule.DuplicatesLast,
			order: []dataset.OrderBy{{Column: "half"}}, want: []string{"[1 5]"},
		},
		"a tie of one order": {
			staging: written6(1, 2, 3, 4, catalog.BeforeRanks, catalog.BeforeRanks)[:5], duplicates: rule.DuplicatesFirst,
			order: []dataset.OrderBy{{Column: "half"}}, want: []string{"[1 0]"},
		},
		"a tie of no known order": {
			staging: written6(catalog.BeforeRanks, catalog.BeforeRanks, 1, 2, 3, 4), duplicates: rule.DuplicatesFirst,
			order: []dataset.OrderBy{{Column: "half"}},
			tie: "duplicates: first must choose between rows of table features.f with the key id=1 that order_by does not tell apart, and it is unknown which of their files " +
				"mem:///features.f/d (snapshot 1) and mem:///features.f/f (snapshot 2) was written first",
		},
		"a tie, last": {
			staging: written6(1, 2, 3, 4, catalog.Unranked, 5), duplicates: rule.DuplicatesLast,
			order: []dataset.OrderBy{{Column: "half"}},
			tie: "duplicates: last must choose between rows of table features.f with the key id=1 that order_by does not tell apart, and it is unknown which of their files " +
				"mem:///features.f/b (snapshot 6) and mem:///features.f/e (snapshot 5) was written first",
		},
		"none but one is on it, and last": {staging: written6(1, 2, catalog.Unranked, 3, 4, 5)[2:3], duplicates: rule.DuplicatesLast, want: []string{"[1 2]"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := scenario.NewWorld()
			t.Cleanup(w.Release)
			place(t, w, "ml.train", "id:long", []commit{{name: "t", sequence: 1, rows: []string{"1"}}})
			place(t, w, "features.f", "id:long v:long half:long", c.staging)
			d := dataset.Dataset{
				Name: "d", Key: []string{"id"}, Training: dataset.Training{Table: "ml.train"},
				Staging: []dataset.Staging{{
					Table: "features.f", Columns: []dataset.Column{{Column: "v"}}, Duplicates: c.duplicates, OrderBy: c.order,
				}},
			}
			l := loader.New(loader.Options{Datasets: []dataset.Dataset{d.Defaults()}, Catalog: w, Scan: w.Scan})
			shards, err := scenario.Read(context.Background(), l, loadertest.OneShard(1, 8))
			if c.tie != "" {
				require.Equal(t, fault.Invalid.String(), fault.KindOf(err).String(), "%v", err)
				require.ErrorContains(t, err, c.tie)
				return
			}
			if !c.refused {
				require.NoError(t, err)
				require.Equal(t, c.want, scenario.Texts(shards[0].Rows()))
				return
			}
			require.Equal(t, fault.Invalid, fault.KindOf(err))
			require.ErrorContains(t, err, "duplicates: last depends on which row was written first")
			pinned := loadertest.OneShard(1, 8)
			table := func(name string) dataset.TablePin {
				table, err := w.Table(t.Context(), name, dataset.Ref{})
				require.NoError(t, err)
				return table.Pin
			}
			pinned.Pin = dataset.Pin{Training: table("ml.train"), Staging: map[string]dataset.TablePin{"f": table("features.f")}}
			_, err = l.Plan(t.Context(), pinned)
			require.Equal(t, fault.Expired, fault.KindOf(err), "it was known once: %v", err)
		})
	}
}

// TestDistinctGoesByCommits checks that commits determine which of repeated rows is
// kept, but not the order of the kept rows.
//
// spec: join-87, join-88, join-89
func TestDistinctGoesByCommits(t *testing.T) {
	t.Parallel()
	rows := func(ranks ...int) []commit {
		commits := written6(ranks...)
		for i := range commits {
			commits[i].rows = append(commits[i].rows, fmt.Sprintf("%d %d %d", 10+i, 10+i, 0))
		}
		return commits
	}
	plans := map[string]bool{}
	for name, c := range map[string]struct {
		training []commit
		keep     dataset.Keep
		order    []dataset.OrderBy
		want     []string
	}{
		"first":    {training: rows(1, 2, 3, 4, 5, 6), keep: dataset.KeepFirst, want: []string{"[12]", "[15]", "[13]", "[0]", "[10]", "[14]", "[11]"}},
		"last":     {training: rows(1, 2, 3, 4, 5, 6), keep: dataset.KeepLast, want: []string{"[12]", "[5]", "[15]", "[13]", "[10]", "[14]", "[11]"}},
		"by names": {training: rows(4, 6, 1, 3, 5, 2), keep: dataset.KeepFirst, want: []string{"[2]", "[12]", "[15]", "[13]", "[10]", "[14]", "[11]"}},
		"a tie": {
			training: rows(1, 2, 3, 4, 5, 6), keep: dataset.KeepLast, order: []dataset.OrderBy{{Column: "half", Descending: true}},
			want: []string{"[2]", "[12]", "[15]", "[13]", "[10]", "[14]", "[11]"},
		},
		"refused": {training: rows(1, 2, catalog.BeforeRanks, 3, catalog.BeforeRanks, 4), keep: dataset.KeepFirst},
	} {
		w := scenario.NewWorld()
		t.Cleanup(w.Release)
		place(t, w, "ml.train", "id:long v:long half:long", c.training)
		d := dataset.Dataset{Name: "d", Key: []string{"id"}, Training: dataset.Training{
			Table: "ml.train", Distinct: &dataset.Distinct{By: []string{"id"}, Keep: c.keep, OrderBy: c.order},
		}}
		l := loader.New(loader.Options{Datasets: []dataset.Dataset{d.Defaults()}, Catalog: w, Scan: w.Scan})
		q := loadertest.OneShard(1, 8)
		q.Columns = []dataset.Column{{Column: "v"}}
		shards, err := scenario.Read(context.Background(), l, q)
		if c.want == nil {
			require.Equal(t, fault.Invalid, fault.KindOf(err), name)
			require.ErrorContains(t, err, "distinct depends on which row was written first")
			continue
		}
		require.NoError(t, err, name)
		require.Equal(t, c.want, scenario.Texts(shards[0].Rows()), name)
		if c.order == nil && c.keep == dataset.KeepFirst {
			plans[shards[0].Report.Cursor.Plan] = true
		}
	}
	require.Len(t, plans, 2, "ranks that decide belong to the plan's id")
}
