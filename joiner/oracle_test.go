package joiner

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/fault"
)

// asked is one staging side as the oracle sees it.
type asked struct {
	table
	key     []int // positions in staging rows
	at      []int // positions in training rows
	columns []int
	rule    Rule
}

// oracle joins by looking at every pair of rows. broken is the side whose rule
// is the first to be broken, or -1.
func oracle(training rows, columns []int, sides []asked) (out []string, counts []Counts, broken int) {
	counts = make([]Counts, len(sides))
	for _, row := range training {
		values, drop := pick(row, columns), false
		for s, side := range sides {
			key, c := pick(row, side.at), &counts[s]
			var matches rows
			for _, staging := range side.rows {
				if slices.Equal(key, pick(staging, side.key)) && !slices.Contains(key, null) {
					matches = append(matches, staging)
				}
			}
			switch c.Rows++; len(matches) {
			case 0:
				c.Missing++
				drop = drop || side.rule.Kind == Inner
				matches = rows{slices.Repeat([]string{null}, len(side.fields))}
				if slices.Contains(key, null) {
					c.NullKeys++
				}
				if side.rule.MissingError {
					return nil, nil, s
				}
			case 1:
				c.Matched++
			default:
				c.Matched, c.Duplicates = c.Matched+1, c.Duplicates+1
				if side.rule.Duplicates == DuplicatesError {
					return nil, nil, s
				}
				c.Resolved++
			}
			match := matches[0]
			if side.rule.Duplicates == DuplicatesLast {
				match = matches[len(matches)-1]
			}
			values = append(values, pick(match, side.columns)...)
		}
		if !drop {
			out = append(out, strings.Join(values, " "))
		}
	}
	return out, counts, -1
}

func pick(row []string, at []int) []string {
	out := make([]string, len(at))
	for i, p := range at {
		out[i] = row[p]
	}
	return out
}

// family is a set of column types whose values can be equal, and some values.
type family struct {
	types  []arrow.DataType
	values []string
}

func families(t *testing.T) []family {
	words := []string{"", "a", "aa", "b", "ab", "ba", "abcdefgh", "abcdefghi"}
	binary := []string{"", "AA==", "AAA=", "AAAA", "AAAAAAAAAAA=", "AQAAAAAAAAA="}
	all := []family{
		{[]arrow.DataType{arrow.PrimitiveTypes.Int32, arrow.PrimitiveTypes.Int64}, []string{"0", "-1", "1", "7", "2147483647", "-2147483648"}},
		{[]arrow.DataType{arrow.PrimitiveTypes.Int64}, []string{"0", "16", "32", "-9223372036854775808", "9223372036854775807"}},
		{[]arrow.DataType{arrow.FixedWidthTypes.Date32}, []string{"1970-01-01", "1969-12-31", "2026-10-01"}},
		{[]arrow.DataType{arrow.FixedWidthTypes.Time64us}, []string{"00:00:00", "00:00:01", "23:59:59.999999"}},
		{
			[]arrow.DataType{arrow.FixedWidthTypes.Timestamp_us, &arrow.TimestampType{Unit: arrow.Microsecond, TimeZone: "+00:00"}},
			[]string{"1970-01-01T00:00:00Z", "2026-10-01T00:00:00.000001Z", "1960-01-01T00:00:00Z"},
		},
		{[]arrow.DataType{&arrow.TimestampType{Unit: arrow.Nanosecond}}, []string{"1970-01-01T00:00:00", "2026-10-01T00:00:00.000000001"}},
		{
			[]arrow.DataType{&arrow.Decimal128Type{Precision: 9, Scale: 2}, &arrow.Decimal128Type{Precision: 30, Scale: 2}},
			[]string{"0", "1.5", "-1.5", "1234567.89"},
		},
		{[]arrow.DataType{arrow.BinaryTypes.String, arrow.BinaryTypes.LargeString}, words},
		{[]arrow.DataType{arrow.BinaryTypes.String, arrow.BinaryTypes.LargeString}, words},
		{[]arrow.DataType{arrow.BinaryTypes.Binary, arrow.BinaryTypes.LargeBinary}, binary},
		{[]arrow.DataType{&arrow.FixedSizeBinaryType{ByteWidth: 4}}, []string{"AAAAAA==", "AAAAAQ==", "AQAAAA=="}},
	}
	for i, f := range all { // as Arrow writes them, in whichever type
		for _, dt := range f.types {
			var cells rows
			for _, v := range f.values {
				cells = append(cells, []string{v})
			}
			r := record(t, memory.DefaultAllocator, arrow.NewSchema([]arrow.Field{field("v", dt)}, nil), cells)
			written := text(t, r)
			r.Release()
			if dt != f.types[0] && len(f.types) > 1 {
				require.Len(t, written, len(all[i].values))
				continue
			}
			all[i].values = written
		}
	}
	return all
}

// world is one random case.
type world struct {
	training table
	columns  []int
	sides    []asked
}

// randomWorld makes training rows (a number and some keys) and up to four
// sides that are keyed on some of these.
func randomWorld(r *rand.Rand, all []family) world {
	keys := make([]family, 1+r.IntN(3))
	w := world{training: table{name: "training", fields: []arrow.Field{field("id", arrow.PrimitiveTypes.Int64)}}}
	for i := range keys {
		keys[i] = all[r.IntN(len(all))]
		w.training.fields = append(w.training.fields, field(fmt.Sprintf("k%d", i), oneOf(r, keys[i].types)))
	}
	w.training.rows = randomRows(r, r.IntN(60), keys)
	w.training.cuts = randomCuts(r, len(w.training.rows))
	w.columns = append([]int{0}, someOf(r, len(keys)+1)...)
	for s := range r.IntN(5) {
		side := asked{table: table{name: fmt.Sprintf("s%d", s), fields: []arrow.Field{field("id", arrow.PrimitiveTypes.Int64)}}}
		for i, k := range r.Perm(len(keys))[:1+r.IntN(len(keys))] {
			side.fields = append(side.fields, field(fmt.Sprintf("r%d", i), oneOf(r, keys[k].types)))
			side.at, side.key = append(side.at, k+1), append(side.key, i+1)
		}
		of := make([]family, len(side.at))
		for i, at := range side.at {
			of[i] = keys[at-1]
		}
		side.rows = randomRows(r, r.IntN(40), of)
		if r.IntN(2) == 0 {
			side.rows = distinct(side.rows)
		}
		side.cuts = randomCuts(r, len(side.rows))
		side.columns = someOf(r, len(side.fields))
		side.rule = Rule{
			Name: side.name, Duplicates: Duplicates(r.IntN(3)), Kind: Kind(r.IntN(2)), MissingError: r.IntN(8) == 0,
		}
		w.sides = append(w.sides, side)
	}
	return w
}

func oneOf[T any](r *rand.Rand, list []T) T { return list[r.IntN(len(list))] }

func someOf(r *rand.Rand, n int) []int { return r.Perm(n)[:r.IntN(n+1)] }

func randomRows(r *rand.Rand, n int, keys []family) rows {
	out, nullsOf := make(rows, n), 1+r.IntN(20)
	for i := range out {
		out[i] = []string{strconv.Itoa(i)}
		if i > 0 && r.IntN(2) == 0 { // a run of one key
			out[i] = append(out[i], out[i-1][1:]...)
			continue
		}
		for _, k := range keys {
			v := oneOf(r, k.values)
			if r.IntN(nullsOf) == 0 {
				v = null
			}
			out[i] = append(out[i], v)
		}
	}
	return out
}

// distinct leaves one row of each key.
func distinct(all rows) rows {
	seen, out := map[string]bool{}, rows{}
	for _, row := range all {
		if key := fmt.Sprintf("%q", row[1:]); !seen[key] {
			seen[key] = true
			out = append(out, row)
		}
	}
	return out
}

func randomCuts(r *rand.Rand, n int) []int {
	var cuts []int
	for left := n; r.IntN(4) > 0; {
		cut := r.IntN(left + 1)
		cuts, left = append(cuts, cut), left-cut
	}
	return cuts
}

// covered names what a case is an example of.
func covered(w world, broken int, out []string, counts []Counts) []string {
	seen := []string{fmt.Sprintf("%d sides", len(w.sides))}
	if broken >= 0 {
		rule := w.sides[broken].rule
		return append(seen, fmt.Sprintf("broken in side %d, missing %v inner %v", broken, rule.MissingError, rule.Kind == Inner))
	}
	if len(out) == 0 {
		seen = append(seen, "no rows")
	}
	if len(out) > 0 && len(out) < len(w.training.rows) {
		seen = append(seen, "some rows dropped")
	}
	for s, c := range counts {
		side := w.sides[s]
		if c.Matched == 0 {
			continue
		}
		for i, at := range side.at {
			seen = append(seen, fmt.Sprintf("%s matches %s", w.training.fields[at].Type, side.fields[side.key[i]].Type))
		}
		if c.NullKeys > 0 {
			seen = append(seen, "null keys")
		}
		if c.Duplicates > 0 {
			seen = append(seen, fmt.Sprintf("duplicates rule %d", side.rule.Duplicates))
		}
		if len(side.columns) == 0 {
			seen = append(seen, "no columns")
		}
		seen = append(seen, fmt.Sprintf("%d key columns", len(side.key)), fmt.Sprintf("%d batches", min(4, len(side.cuts)+1)))
	}
	return seen
}

// spec: join-1, join-3, join-4, join-5, join-6, join-7, join-9, join-11, join-12, join-15, join-16, join-17, join-18
func TestJoinAgreesWithTheOracle(t *testing.T) {
	all, seen := families(t), map[string]int{}
	for seed := range uint64(600) {
		w := randomWorld(rand.New(rand.NewPCG(seed, 3)), all)
		want, wantCounts, broken := oracle(w.training.rows, w.columns, w.sides)
		for _, label := range covered(w, broken, want, wantCounts) {
			seen[label]++
		}
		ok := t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			mem, limit := checked(t), budget.New(1<<30)
			opts := Options{Memory: mem, Budget: limit}
			var probes []Probe
			for _, s := range w.sides {
				var columns []arrow.Field
				for _, at := range s.columns {
					columns = append(columns, s.fields[at])
				}
				probes = append(probes, Probe{
					Rule: s.rule, Key: s.at, Columns: columns,
					Side: built(s.input(t, mem, s.key, s.columns), Recipe{Name: s.rule.Name}, opts),
				})
			}
			r, err := Join(t.Context(), w.training.input(t, mem, nil, w.columns), probes, opts)
			require.NoError(t, err)
			got, counts, err := drain(t, r)
			require.Zero(t, limit.Used())
			if broken >= 0 {
				require.Equal(t, fault.Invalid, fault.KindOf(err))
				require.ErrorContains(t, err, "join "+w.sides[broken].name+":")
				return
			}
			require.NoError(t, err)
			require.Equal(t, want, got)
			require.Equal(t, wantCounts, counts)
		})
		require.True(t, ok)
	}
	for _, label := range []string{
		"0 sides", "1 sides", "4 sides", "no rows", "some rows dropped", "null keys", "no columns",
		"duplicates rule 1", "duplicates rule 2", "1 key columns", "2 key columns", "3 key columns", "1 batches", "4 batches",
		"int32 matches int64", "int64 matches int32", "utf8 matches large_utf8", "large_utf8 matches utf8",
		"binary matches large_binary", "date32 matches date32", "time64[us] matches time64[us]", "decimal(9, 2) matches decimal(30, 2)",
		"timestamp[us, tz=UTC] matches timestamp[us, tz=+00:00]", "timestamp[ns] matches timestamp[ns]",
		"fixed_size_binary[4] matches fixed_size_binary[4]",
		"broken in side 0, missing false inner false", "broken in side 3, missing true inner true",
	} {
		require.NotZero(t, seen[label], "the cases have no example of %q: %v", label, seen)
	}
}
