package verify_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/verify"
)

// Two values differ in one way: the least that makes them equal.
//
// spec: join-98
func TestDifferences(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		a, b string
		want verify.KeyDifference
	}{
		{"a", "a", ""},
		{" a ", "a", "white space"},
		{"a b", "ab\t", "white space"},
		{"AB", "ab", "upper and lower case"},
		{"ÄB ", "äb", "upper and lower case"},
		{"2026-10-01T10:00:00Z", "2026-10-01 12:00:00+02:00", "the form or the zone of times"},
		{"2026-10-01 10:00:00.5", "2026-10-01T10:00:00.500Z", "the form or the zone of times"},
		{"2026-10-01T10:00:00", "2026-10-01T12:00:00+02", "the form or the zone of times"},
		{"6F9619FF-8B86-D011", "6f9619ff8b86d011", "punctuation"},
		{"r_7", "R7", "punctuation"},
		{"0007", "7", "leading zeros"},
		{"r-0007", "R7", "leading zeros"},
		{"R-0000123", "123", "letters before or after the digits"},
		{"000", "0", "leading zeros"},
		{"00ab12", "AB12", "leading zeros"},
		{"12.0", "12", "decimals of whole numbers"},
		{" 120.000", "120", "decimals of whole numbers"},
		{"12.5", "125", "punctuation"},
	} {
		require.Equal(t, c.want, verify.DifferenceOf(c.a, c.b), "%q, %q", c.a, c.b)
		require.Equal(t, c.want, verify.DifferenceOf(c.b, c.a), "%q, %q", c.b, c.a)
	}
}

// Keys of one style are different keys.
//
// spec: join-113
func TestKeysOfOneStyleAreNoSpellings(t *testing.T) {
	t.Parallel()
	for _, c := range [][2]string{{"aB1", "Ab1"}, {"ab-c", "a-bc"}, {"user_1", "item_1"}, {"AB123", "CD123"}} {
		require.False(t, verify.Respelled(c[0], c[1]), "%v", c)
		require.False(t, verify.Respelled(c[1], c[0]), "%v", c)
	}
}

// A join that matches none of its rows, or less than 1 % of 10,000, is a finding that shows keys
// of both tables next to each other and how they differ, unless the dataset has min_match.
//
// spec: join-98
func TestKeysInOtherForms(t *testing.T) {
	t.Parallel()
	const rows = 10_000
	for name, c := range map[string]struct {
		training, staging string // formats of a number
		also              int    // staging keys that match
		rule              string
		kinds             []verify.Kind
		says              []string
		note              bool // it is only worth knowing
	}{
		"zeros and prefix": {
			training: "R-%07d", staging: "%d", kinds: []verify.Kind{verify.FewMatches},
			says: []string{
				"breaks a rule: 1 finding\n  few_matches, user\n    0 of 10000 training rows match (0%): keys of both tables differ in letters before or after the digits; write",
				"  keys of both tables:\n    training id (utf8)  staging req (utf8)\n    \"R-00",
			},
		},
		"case":          {training: "abc%d", staging: "ABC%d", kinds: []verify.Kind{verify.FewMatches}, says: []string{"differ in upper and lower case; write"}},
		"zeros":         {training: "%05d", staging: "%d", kinds: []verify.Kind{verify.FewMatches}, says: []string{"differ in leading zeros; write"}},
		"other keys":    {training: "a%dx", staging: "zzz", kinds: []verify.Kind{verify.FewMatches}, says: []string{"(0%); compare the keys of both tables above", "\"zzz\""}},
		"less than 1 %": {training: "abc%d", staging: "ABC%d", also: 99, kinds: []verify.Kind{verify.FewMatches}, says: []string{"99 of 10000 training rows match (0.99%): keys of both tables differ in upper and lower case"}},
		"1 %":           {training: "abc%d", staging: "ABC%d", also: 100, kinds: []verify.Kind{verify.Spelling}, note: true},
		"allowed":       {training: "abc%d", staging: "ABC%d", also: 99, rule: ", min_match: 0.001", kinds: []verify.Kind{verify.Spelling}, note: true},
		"any allowed":   {training: "abc%d", staging: "ABC%d", rule: ", min_match: 0", kinds: []verify.Kind{verify.FewMatches}, says: []string{"worth knowing: 1 finding\n  few_matches, user"}, note: true},
		"anti":          {training: "abc%d", staging: "ABC%d", also: 1, rule: ", join: anti", kinds: []verify.Kind{verify.Spelling}, note: true},
		"anti of none":  {training: "abc%d", staging: "ABC%d", rule: ", join: anti", kinds: []verify.Kind{verify.FewMatches}},
		"min_match":     {training: "abc%d", staging: "ABC%d", rule: ", min_match: 0.5", kinds: []verify.Kind{verify.MatchRate, verify.Spelling}, says: []string{"  keys of both tables:\n"}},
		"no rows":       {training: "abc%d", staging: "ABC%d", rule: ", filter: \"v > 1\"", kinds: []verify.Kind{verify.FewMatches}, says: []string{"since the staging table has no rows", "  -\n"}},
		"null keys":     {training: "-", staging: "ABC%d", kinds: []verify.Kind{verify.FewMatches}, says: []string{"since every training row has a null in the key"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.table("ml.train", "id:string secret:string", "bucket(4,id)")
			w.table("f.user", "req:string v:int", "bucket(2,req)")
			text := func(format string, i int) string {
				if format == "-" || format == "zzz" {
					return format
				}
				return fmt.Sprintf(format, i)
			}
			var training, staging []string
			for i := range rows {
				training = append(training, text(c.training, i)+" hidden")
				if c.staging != "zzz" || i == 0 {
					staging = append(staging, text(c.staging, rows-1-i)+" 1") // in another order
				}
				if i < c.also {
					staging = append(staging, text(c.training, i)+" 1")
				}
			}
			w.add("ml.train", 0, training...)
			w.add("f.user", 0, staging...)
			w.dataset("{training: {table: ml.train}, key: [id], staging: [{table: f.user, key: {id: req}" + c.rule + "}]}")
			v := w.verify(dataset.Query{})
			require.Equal(t, c.kinds, kinds(v), "%s", v)
			require.Equal(t, len(c.kinds) == 0 || c.note, v.Clean())
			for _, says := range c.says {
				require.Contains(t, v.String(), says)
			}
			require.NotContains(t, v.String(), "hidden")
			if f := join(v).Forms; f != nil {
				require.LessOrEqual(t, len(f.Pairs), 5)
				require.Equal(t, verify.KeyColumns{Columns: []string{"id"}, Types: []string{"utf8"}}, f.Training)
			}
			require.Equal(t, len(c.kinds) > 0, join(v).Forms != nil, "keys are compared only if there is a finding")
		})
	}
}
