package backfill_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/cmd/penstock/backfill"
	"github.com/penstock/penstock/joiner/rule"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/dataset/datasettest"
)

// promoted returns a dataset with one entry of each kind that can be printed.
func promoted() backfill.Target {
	out := home(daily()...)
	out.Training.Specs = map[int]catalog.Spec{1: daily()}
	out.Dataset.Staging[0].Duplicates, out.Dataset.Staging[0].MatchedAs = rule.DuplicatesLast, "known"
	out.Dataset.Staging[0].OrderBy = []dataset.OrderBy{{Column: "country", Descending: true}}
	out.Dataset.Staging[0].MinMatch = 0.5
	out.Dataset.Staging = append(out.Dataset.Staging, dataset.Staging{
		Table: "features.ctr", Key: []dataset.KeyPair{{Training: "user.id", Staging: "odd `id`"}}, Join: rule.Overlay, Columns: []dataset.Column{{Column: "ctr"}},
		Ref: dataset.Ref{Name: "it's"}, Align: &dataset.Align{Training: "day", Rule: dataset.AlignLag, Lag: dataset.Lag{Time: 48 * 3600e9}}, Nulls: rule.NullsKeep,
	}, dataset.Staging{
		Table: "features.ctr", Name: "lists", Key: []dataset.KeyPair{{Training: "user.id", Staging: "odd `id`"}}, Missing: rule.MissingError,
		Columns: []dataset.Column{{Column: "recent", Name: "newest", Last: 5}}, Ref: dataset.Ref{Snapshot: 7},
	})
	ctr := &catalog.Table{
		Name: "features.ctr",
		Fields: []catalog.Field{
			column(1, "odd `id`", long), column(2, "ctr", number), column(3, "recent", out.Staging[0].Fields[1].Type), column(4, "day", out.Training.Fields[1].Type),
		},
		Specs: map[int]catalog.Spec{0: {partition(4, catalog.Identity, 0), partition(1, catalog.Bucket, 12)}},
	}
	out.Staging = append(out.Staging, ctr, ctr)
	return out
}

// spec: backfill-4, promote-60, promote-61
func TestPromotionsAreWrittenAsSQL(t *testing.T) {
	t.Parallel()
	text, err := backfill.Promote(promoted(), []string{"history", "ctr", "lists"})
	require.NoError(t, err)
	path := filepath.Join("testdata", "promotes.sql")
	if *rewrite {
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(want), text)
}

// TestEachRuleForNullsHasItsSQL checks that the SQL differs for each rule for nulls.
//
// spec: promote-60
func TestEachRuleForNullsHasItsSQL(t *testing.T) {
	t.Parallel()
	printed := map[string]rule.Nulls{}
	for _, nulls := range rule.AllNulls() {
		of := promoted()
		of.Dataset.Staging[1].Nulls = nulls
		text, err := backfill.Promote(of, []string{"ctr"})
		require.NoError(t, err)
		require.NotContains(t, printed, text, "%s is printed as %s", nulls, printed[text])
		printed[text] = nulls
	}
}

// spec: promote-62
func TestPromotionsThatAreNotPrinted(t *testing.T) {
	t.Parallel()
	for text, change := range map[string]func(in *backfill.Target, s *dataset.Staging){
		"entry history is an inner join":      func(_ *backfill.Target, s *dataset.Staging) { s.Join = rule.Inner },
		"entry history repeats training rows": func(_ *backfill.Target, s *dataset.Staging) { s.Duplicates = rule.DuplicatesAll },
		"entry history has a filter":          func(_ *backfill.Target, s *dataset.Staging) { s.Filter = datasettest.Filter("country = 'CH'") },
		"strategy of its own":                 func(_ *backfill.Target, s *dataset.Staging) { s.Custom = "near" },
		"partitions whose transform is not identity": func(_ *backfill.Target, s *dataset.Staging) {
			s.Align = &dataset.Align{Training: "request_id", Staging: "req_id"}
		},
		"a branch, a tag or a snapshot": func(in *backfill.Target, _ *dataset.Staging) { in.Dataset.Training.Ref.Name = "old" },
		"cannot declare column": func(in *backfill.Target, _ *dataset.Staging) {
			in.Staging[0].Fields[1].Type = in.Training.Fields[7].Type
		},
		"which would overlay its promoted": func(_ *backfill.Target, s *dataset.Staging) { s.Join, s.Columns = rule.Overlay, []dataset.Column{} },
		"training rows without a match that the filter drops": func(in *backfill.Target, s *dataset.Staging) {
			s.Missing, s.Defaults = rule.MissingError, nil
			in.Dataset.Training.Filter = datasettest.Filter("ctr > 0")
		},
		"converts column clicks": func(_ *backfill.Target, s *dataset.Staging) {
			s.Columns = []dataset.Column{{Column: "country"}, {Column: "req_id", Name: "clicks", As: "int"}}
		},
		"dataset home has no staging entry others": nil,
	} {
		in, names := promoted(), []string{"history", "ctr"}
		switch {
		case change == nil:
			names = []string{"others"}
		case text == "which would overlay its promoted":
			names = names[1:]
			fallthrough
		default:
			change(&in, &in.Dataset.Staging[0])
		}
		_, err := backfill.Promote(in, names)
		require.ErrorContains(t, err, text)
	}
	_, err := backfill.Promote(promoted(), nil)
	require.ErrorContains(t, err, "no entry is named")
}
