package verify_test

import (
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/loader"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/verify"
)

// uuidText returns the text of the UUID of a number.
func uuidText(i int) string {
	rng := rand.New(rand.NewPCG(uint64(i), 7))
	a, b := rng.Uint64(), rng.Uint64()
	return fmt.Sprintf("%08x-%04x-%04x-%04x-%012x", a>>32, a>>16&0xffff, a&0xffff, b>>48, b&0xffffffffffff)
}

// code returns the key of a number, with letters in upper and lower case, which the seed decides.
func code(i int, seed uint64) string {
	rng := rand.New(rand.NewPCG(uint64(i), seed))
	letters := []byte(strconv.FormatInt(int64(i)*7_919_919_919_919+1_000_000_000_000_000_000, 36))
	for at, of := range letters {
		if of >= 'a' && rng.IntN(2) == 0 {
			letters[at] = of - 'a' + 'A'
		}
	}
	return string(letters)
}

// If keys of training rows without a match exist in the staging table in another spelling, in whichever bucket, a note says how
// many, and how the spellings differ. New keys have none.
//
// spec: join-111, join-112
func TestPartOfTheKeysInAnotherSpelling(t *testing.T) {
	t.Parallel()
	const rows = 2000
	plain := func(i int) string { return strconv.Itoa(100_000 + 7*i) }
	for name, c := range map[string]struct {
		kind            string // of the key; string by default
		training, other func(i int) string
		cold            int    // percent of training keys that staging has in no spelling
		rule            string // of the entry
		want            string // differences; "" for none
		absent          bool   // the staging table has the other keys, and not in place of the training keys
	}{
		"upper case":         {training: uuidText, other: func(i int) string { return strings.ToUpper(uuidText(i)) }, want: "upper and lower case"},
		"without dashes":     {training: uuidText, other: func(i int) string { return strings.ReplaceAll(uuidText(i), "-", "") }, want: "punctuation"},
		"braces, upper case": {training: uuidText, other: func(i int) string { return "{" + strings.ToUpper(uuidText(i)) + "}" }, want: "upper and lower case|punctuation"},
		"padded":             {training: plain, other: func(i int) string { return plain(i) + "   " }, want: "white space"},
		"leading zeros":      {training: plain, other: func(i int) string { return "0000" + plain(i) }, want: "leading zeros"},
		"floats":             {training: plain, other: func(i int) string { return plain(i) + ".0" }, want: "decimals of whole numbers"},
		"prefix":             {training: func(i int) string { return "user_" + plain(i) }, other: plain, want: "letters before or after the digits"},
		"prefix of UUIDs":    {training: uuidText, other: func(i int) string { return "user_" + uuidText(i) }, want: "letters before or after the digits"},
		"binary":             {kind: "binary", training: uuidText, other: func(i int) string { return strings.ToUpper(uuidText(i)) }, want: "upper and lower case"},
		"and new keys":       {training: uuidText, other: func(i int) string { return strings.ToUpper(uuidText(i)) }, cold: 40, want: "upper and lower case"},
		"anti":               {training: uuidText, other: func(i int) string { return strings.ToUpper(uuidText(i)) }, rule: ", join: anti", want: "upper and lower case"},
		"beside the right":   {training: uuidText, other: func(i int) string { return strings.ToUpper(uuidText(i)) }, cold: 30, absent: true},
		"only new keys":      {training: uuidText, other: func(i int) string { return uuidText(i + rows) }},
		"another kind":       {training: func(i int) string { return "user_" + plain(i) }, other: func(i int) string { return "item_" + plain(i) }},
		"keys of any case":   {training: func(i int) string { return code(i, 1) }, other: func(i int) string { return code(i, 2) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			if c.kind == "" {
				c.kind = "string"
			}
			w.table("ml.train", "id:"+c.kind, "bucket(4,id)")
			w.table("f.user", "req:"+c.kind+" v:int", "bucket(6,req)")
			quoted := func(key string) string {
				if c.kind == "binary" {
					return base64.StdEncoding.EncodeToString([]byte(key))
				}
				return strconv.Quote(key)
			}
			var training, staging []string
			respelled := 0
			for i := range rows {
				training = append(training, quoted(c.training(i)))
				switch at := i % 100; {
				case at < c.cold:
				case at >= 68 && c.absent:
					staging = append(staging, quoted(c.training(i))+" 1", quoted(c.other(i))+" 1")
				case at >= 68:
					staging = append(staging, quoted(c.other(i))+" 1")
					if c.other(i) != c.training(i) {
						respelled++
					}
				default:
					staging = append(staging, quoted(c.training(i))+" 1")
				}
			}
			w.add("ml.train", 0, training...)
			w.add("f.user", 0, staging...)
			w.dataset("{training: {table: ml.train}, key: [id], staging: [{table: f.user, key: {id: req}" + c.rule + "}]}")
			w.options.Budget = budget.New(4 << 20)
			v := w.verify(dataset.Query{})
			require.Zero(t, w.options.Budget.Used())
			require.True(t, v.Clean(), "%s", v)
			require.EqualValues(t, rows*c.cold/100+respelled, join(v).Missing)
			if c.want == "" {
				require.Empty(t, v.Findings, "%s", v)
				require.Nil(t, join(v).Forms)
				return
			}
			require.Equal(t, []verify.Kind{verify.Spelling}, kinds(v))
			f := join(v).Forms
			require.Equal(t, 64, f.Sampled)
			require.InDelta(t, 64*respelled/int(join(v).Missing), f.Respelled, 12)
			require.True(t, f.Alike)
			var want []verify.KeyDifference
			for one := range strings.SplitSeq(c.want, "|") {
				want = append(want, verify.KeyDifference(one))
			}
			require.Equal(t, want, f.Differences)
			require.Len(t, f.Pairs, 5)
			require.Contains(t, v.Findings[0].Message, fmt.Sprintf(
				"%d of 64 sampled training keys without a match are in staging in another spelling, which differs in %s; for example, %s in training is %s in staging",
				f.Respelled, strings.ReplaceAll(c.want, "|", " and in "), f.Pairs[0].Training, f.Pairs[0].Staging))
			if c.kind == "string" {
				key, err := strconv.Unquote(f.Pairs[0].Training)
				require.NoError(t, err)
				require.Contains(t, training, strconv.Quote(key))
			}
			require.Contains(t, v.String(), "  keys of both tables:\n")

			w.options.Budget = nil
			w.BatchRows = 7
			again := w.verify(dataset.Query{})
			require.Equal(t, v.Findings, again.Findings, "the sample does not depend on batches")
		})
	}
}

// A key in another spelling is found in other columns of a key, in another partition and at another time, but equal keys at another
// time or in another partition are no spelling.
//
// spec: join-111, join-112
func TestSpellingsWithPartitionsAndTimes(t *testing.T) {
	t.Parallel()
	for name, rule := range map[string]string{
		"align": "align: {training: day}",
		"times": "point_in_time: {training: ts, staging: at, tolerance: 10}",
	} {
		for _, respelled := range []bool{false, true} {
			w := newWorld(t)
			w.table("ml.train", "id:string shop:int day:date ts:long", "day bucket(4,id)")
			w.table("f.user", "req:string shop:int day:date at:long", "day bucket(2,req)")
			var training, staging []string
			for i := range 1000 {
				key := fmt.Sprintf("k-%d %d", i, i%7)
				training = append(training, fmt.Sprintf("%s 2026-01-0%d 100", key, 1+i%5))
				switch {
				case i%5 < 3:
					staging = append(staging, fmt.Sprintf("%s 2026-01-0%d 100", key, 1+i%5))
				case respelled:
					staging = append(staging, strings.ToUpper(key)+fmt.Sprintf(" 2026-01-0%d 100", 1+i%5))
				default: // in another partition, and at another time
					staging = append(staging, key+" 2026-01-07 200")
				}
			}
			w.add("ml.train", 0, training...)
			w.add("f.user", 0, staging...)
			w.dataset("{training: {table: ml.train}, key: [id], staging: [{table: f.user, prefix: u_, key: {id: req, shop: shop}, " + rule + "}]}")
			v := w.verify(dataset.Query{})
			require.EqualValues(t, 400, join(v).Missing, "%s", v)
			if !respelled {
				require.Empty(t, v.Findings, "%s: %s", name, v)
				continue
			}
			require.Equal(t, []verify.Kind{verify.Spelling}, kinds(v), "%s: %s", name, v)
			require.Equal(t, 64, join(v).Forms.Respelled)
			require.Equal(t, []string{"id", "shop"}, join(v).Forms.Training.Columns)
		}
	}
}

// Keys are sought only if at least 1 % of the training rows have a key without a match, and only texts and binary values are.
//
// spec: join-111
func TestKeysAreSoughtOnlyIfManyHaveNoMatch(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		kind      string
		unmatched int // of 1000 training rows
		sought    bool
	}{
		"1 %":            {"string", 10, true},
		"less than 1 %":  {"string", 9, false},
		"numbers":        {"long", 300, false},
		"null keys only": {"string", -300, false}, // the keys are null
	} {
		w := newWorld(t)
		w.table("ml.train", "id:"+c.kind, "bucket(4,id)")
		w.table("f.user", "id:"+c.kind, "bucket(2,id)")
		var training, staging []string
		for i := range 1000 {
			key := strconv.Itoa(i)
			switch {
			case i < c.unmatched:
				staging = append(staging, strconv.Itoa(10*i+10_000))
			case i < -c.unmatched:
				key = "-"
			default:
				staging = append(staging, key)
			}
			training = append(training, key)
		}
		w.add("ml.train", 0, training...)
		w.add("f.user", 0, staging...)
		w.dataset("{training: {table: ml.train}, key: [id], staging: [{table: f.user}]}")
		var read loader.VerifyProgress
		_, err := loader.New(w.options).Verify(t.Context(), loader.PlanRequest{Query: dataset.Query{Rows: dataset.Rows{Dataset: "d"}}}, func(p loader.VerifyProgress) { read = p })
		require.NoError(t, err)
		expected := int64(len(training) + len(staging))
		if c.sought {
			expected += int64(len(staging))
		}
		require.Equal(t, expected, read.OfRows, name)
	}
}
