package scenario

import (
	"encoding/base64"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/penstock/penstock/internal/scenario/cell"
	"github.com/penstock/penstock/loader/dataset"
)

// keyKind is a type of the first key column.
type keyKind struct {
	training, staging string   // types
	fields            []string // partition fields of the key other than buckets; %s stands for the key's name
}

//nolint:gochecknoglobals // a constant table
var keyKinds = []keyKind{
	{"long", "long", []string{"%s", "truncate(10,%s)", "truncate(25,%s)"}},
	{"long", "int", []string{"truncate(15,%s)", "%s"}},
	{"int", "long", []string{"truncate(30,%s)", "truncate(2,%s)"}},
	{"string", "string", []string{"truncate(2,%s)", "truncate(4,%s)", "%s"}},
	{"string", "string", []string{"truncate(3,%s)"}},
	{"date", "date", []string{"month(%s)", "day(%s)", "year(%s)", "%s"}},
	{"timestamp", "timestamp", []string{"day(%s)", "hour(%s)", "month(%s)"}},
	{"timestamptz", "timestamptz", []string{"day(%s)", "hour(%s)"}},
	{"timestamp_ns", "timestamp_ns", []string{"day(%s)", "hour(%s)"}},
	{"time", "time", []string{"%s"}},
	{"decimal(9,2)", "decimal(30,2)", []string{"truncate(2000,%s)", "%[1]s truncate(2000,%[1]s)", "%s"}},
	{"binary", "binary", []string{"truncate(2,%s)", "%s"}},
	{"timestamptz_ns", "timestamptz_ns", []string{"day(%s)", "month(%s)"}},
	{"decimal(38,10)", "decimal(38,10)", []string{"truncate(50,%s)", "truncate(50,%[1]s) %[1]s", "%s"}},
	{"uuid", "uuid", []string{"%s"}},
	{"fixed(3)", "fixed(3)", []string{"%s"}},
}

// secondKind is a type of the second key column, and its values as words. Texts could
// be confused with the end of the first key if keys were concatenated.
type secondKind struct {
	kind  string
	words []string
}

//nolint:gochecknoglobals // a constant table
var secondKinds = []secondKind{
	{"long", []string{"0", "1", "2"}},
	{"long", []string{"0", "1", "-9223372036854775808"}},
	{"string", []string{`""`, `"\u0000\u0000"`, `"\u0000"`, "k"}},
	{"binary", []string{`""`, "AAA=", "AA==", "AP8="}},
	{"date", []string{"1969-12-31", "1970-01-01", "2024-02-29"}},
}

// makeKeys chooses the distinct values of the first key column, as words.
func (g *generator) makeKeys(n int) {
	fields, _ := Fields("k:" + g.kind.training) // cannot fail: the type is from the table of kinds
	special := g.specialKeys()
	for i := range n {
		key := g.usualKey(i)
		if len(special) > 0 && g.chance(4) {
			key = word(fields[0].Type, pick(g.Rand, special...))
		}
		if !slices.Contains(g.keys, key) {
			g.keys = append(g.keys, key)
		}
	}
}

// usualKey returns the i-th regular value of the first key column.
func (g *generator) usualKey(i int) string {
	n := i*7 - 20
	switch kind := g.kind.training; kind {
	case "string":
		return fmt.Sprintf("k%d", n+20)
	case "date":
		return g.start.AddDate(0, 0, n).Format(time.DateOnly)
	case "timestamp", "timestamptz":
		return g.start.Add(time.Duration(n) * 5 * time.Hour).Format(instantForm)
	case "timestamp_ns", "timestamptz_ns": // some within one microsecond
		return g.start.Add(time.Duration(n/2) * 5 * time.Hour).Add(time.Duration(i % 3)).Format(instantForm)
	case "time":
		return fmt.Sprintf("%02d:00:%02d", i%24, i)
	case "decimal(9,2)":
		return fmt.Sprintf("%d.25", n)
	case "decimal(38,10)":
		return fmt.Sprintf("%d.0000000001", n)
	case "binary":
		return base64.StdEncoding.EncodeToString([]byte(fmt.Sprintf("b%d", n+20)))
	case "uuid":
		return fmt.Sprintf("%08x-0000-4000-8000-0000000000%02x", i%3<<30, i)
	case "fixed(3)":
		return base64.StdEncoding.EncodeToString([]byte{byte(i % 2 * 255), 0, byte(i)})
	default:
		return strconv.Itoa(n)
	}
}

func (g *generator) maybe(text string) string {
	if g.chance(8) {
		return null
	}
	return text
}

// alignment is a pair of partition fields and rules that align them.
type alignment struct {
	training, staging string // partition fields
	column            string // the source column of both
	rules             []dataset.Align
}

//nolint:gochecknoglobals // a constant table
var alignments = []alignment{
	{"day", "day", "day", []dataset.Align{
		{Rule: dataset.AlignSame},
		{Rule: dataset.AlignLag, Lag: dataset.Lag{Time: 24 * time.Hour}},
		{Rule: dataset.AlignLag, Lag: dataset.Lag{Time: 48 * time.Hour}},
		{Rule: dataset.AlignLatestBefore},
		{Rule: dataset.AlignLatestBefore, Lag: dataset.Lag{Time: 24 * time.Hour}},
	}},
	{"day(ts)", "day(ts)", "ts", []dataset.Align{
		{Rule: dataset.AlignSame},
		{Rule: dataset.AlignLag, Lag: dataset.Lag{Time: 24 * time.Hour}},
		{Rule: dataset.AlignLatestBefore},
	}},
	{"hour(ts)", "hour(ts)", "ts", []dataset.Align{
		{Rule: dataset.AlignSame},
		{Rule: dataset.AlignLag, Lag: dataset.Lag{Time: time.Hour}},
		{Rule: dataset.AlignLag, Lag: dataset.Lag{Time: 24 * time.Hour}},
		{Rule: dataset.AlignLatestBefore},
		{Rule: dataset.AlignLatestBefore, Lag: dataset.Lag{Time: 3 * time.Hour}},
	}},
	{"hour(ts)", "day(ts)", "ts", []dataset.Align{
		{Rule: dataset.AlignLag, Lag: dataset.Lag{Time: 24 * time.Hour}},
		{Rule: dataset.AlignLatestBefore},
	}},
	{"day(ts)", "hour(ts)", "ts", []dataset.Align{
		{Rule: dataset.AlignLag, Lag: dataset.Lag{Time: time.Hour}},
		{Rule: dataset.AlignLatestBefore},
	}},
	{"month(ts)", "month(ts)", "ts", []dataset.Align{
		{Rule: dataset.AlignSame},
		{Rule: dataset.AlignLag, Lag: dataset.Lag{Months: 1}},
		{Rule: dataset.AlignLatestBefore},
	}},
	{"part", "part", "part", []dataset.Align{
		{Rule: dataset.AlignSame},
		{Rule: dataset.AlignLag, Lag: dataset.Lag{Count: 1}},
		{Rule: dataset.AlignLatestBefore},
		{Rule: dataset.AlignLatestBefore, Lag: dataset.Lag{Count: 2}},
	}},
}

// layout returns the partition fields of a table: transforms of the key, and others.
func (g *generator) layout(key, second string, count int, aligned string) string {
	var fields []string
	around := []string{"day", "region", "part", "day(ts)", "hour(ts)", "month(day)", "truncate(1,region)"}
	if aligned != "" {
		fields = append(fields, aligned)
		around = nil
	}
	if len(around) > 0 && g.chance(4) {
		fields = append(fields, pick(g.Rand, around...))
		g.Layouts["partition field around the bucket"]++
	}
	choice := g.IntN(9)
	if g.parted && g.chance(2) {
		choice = 2
	}
	switch choice {
	case 0:
		fields = append(fields, fmt.Sprintf("bucket(%d,%s)", count, second))
		g.Layouts["bucket of the second key"]++
	case 1:
		fields = append(fields, fmt.Sprintf("bucket(%d,%s)", count, key), fmt.Sprintf("bucket(%d,%s)", 1+g.IntN(4), second))
		g.Layouts["buckets of both keys"]++
	case 2:
		field := pick(g.Rand, g.kind.fields...)
		fields = append(fields, fmt.Sprintf(field, key))
		g.Layouts["key partitioned by "+strings.NewReplacer("%s", "identity", "%[1]s ", "identity and ").Replace(strings.SplitN(field, "(", 2)[0])]++
	case 3:
		g.Layouts["no partition of the key"]++
	default:
		fields = append(fields, fmt.Sprintf("bucket(%d,%s)", count, key))
		g.Layouts["bucket of the key"]++
	}
	return strings.Join(fields, " ")
}

// specs returns one partition spec, or several specs like those of a table after spec evolution.
func (g *generator) specs(key, second string, count int, aligned string) []string {
	specs := []string{g.layout(key, second, count, aligned)}
	for g.chance(3) && len(specs) < 3 {
		specs = append(specs, g.layout(key, second, pick(g.Rand, count*2, count, 1+g.IntN(16)), aligned))
	}
	return specs
}

// commits returns rows in several commits with any specs and file sizes, sorted by the
// key or not.
func (g *generator) commits(specs []string, rows int, line func() string) []Commit {
	var commits []Commit
	sorted, fileRows := g.chance(3), g.IntN(3)*(1+g.IntN(5))
	for range 1 + g.IntN(3) {
		c := Commit{Spec: g.IntN(len(specs)), FileRows: fileRows}
		for range g.IntN(rows + 1) {
			c.Lines = append(c.Lines, line())
		}
		if sorted {
			slices.SortStableFunc(c.Lines, g.byKey)
			g.Layouts["sorted by the key"]++
		}
		commits = append(commits, c)
	}
	used := map[int]bool{}
	for _, c := range commits {
		used[c.Spec] = used[c.Spec] || len(c.Lines) > 0
	}
	if len(used) > 1 {
		g.Layouts["files of several specs"]++
	}
	return commits
}

// byKey orders lines like writers: by their first word, which is the key, with nulls first.
func (g *generator) byKey(a, b string) int {
	fields, _ := Fields("k:" + g.kind.training) // cannot fail: the type is from the table of kinds
	x, _ := parseWord(fields[0].Type, Words(a)[0])
	y, _ := parseWord(fields[0].Type, Words(b)[0]) // cannot fail: the word is one of the keys
	switch {
	case x == nil && y == nil:
		return 0
	case x == nil:
		return -1
	case y == nil:
		return 1
	default:
		return cell.Compare(x, y)
	}
}

const trainingNames = "k k2 part day ts item label score region tags p0 p1 p2 x"

func (g *generator) trainingTable() Table {
	t := Table{
		Name: "ml.train", Header: "k:" + g.kind.training + " k2:" + g.second.kind + " part:long day:date ts:timestamp item:long! label:long score:double region:string tags:list<long> " + g.payload,
		Specs: g.specs("k", "k2", g.counts[0], g.alignment.training),
	}
	if d := g.Dataset.Training.Distinct; d != nil {
		t.Specs = []string{fmt.Sprintf("bucket(%d,k)", g.counts[0])}
		if d.Scope == dataset.ScopePartition {
			t.Specs[0] = strings.TrimSpace(g.alignment.training + " " + pick(g.Rand, t.Specs[0], "day "+t.Specs[0], "region"))
		}
		if g.alignment.training == "day" {
			t.Specs[0] = "day bucket(2,k)"
		}
	}
	item := 0
	t.Commits = g.commits(t.Specs, 30, func() string {
		item++
		at := g.at()
		return strings.Join(append([]string{
			g.maybe(pick(g.Rand, g.keys...)), g.maybe(pick(g.Rand, g.second.words...)), g.maybe(strconv.Itoa(g.IntN(5))),
			g.maybe(at.Format(time.DateOnly)), g.maybe(at.Format("2006-01-02T15:04:05")),
			strconv.Itoa(item), g.maybe(strconv.Itoa(g.IntN(2))), g.maybe(pick(g.Rand, "0.5", "1.5", "2.5", "NaN", "Inf", "-Inf", "0", "-0")),
			g.maybe(pick(g.Rand, "eu", "us", "ea")), g.maybe(pick(g.Rand, "[1,2,3]", "[4]", "[5,null]")),
		}, g.words(g.payload)...), " ")
	})
	return t
}

// at returns a time on one of a few days. In half of the cases, it is one of a few times.
func (g *generator) at() time.Time {
	if g.coarse {
		return g.start.Add(time.Duration(g.IntN(8)) * 9 * time.Hour)
	}
	return g.start.Add(time.Duration(g.IntN(72)) * time.Hour).Add(time.Duration(g.IntN(2)*30) * time.Minute)
}

// stagingHeader returns the columns of a new staging table.
func (g *generator) stagingHeader(i int) string {
	name := fmt.Sprintf("s%d", i)
	return fmt.Sprintf("req:%s req2:%s part:long day:date ts:timestamp version:long! label:long score:double region:string %s_v:long %s_f:float %s_t:list<long> %s_s:string row:long! %s x:%s",
		g.kind.staging, g.second.kind, name, name, name, name, g.columns(name+"_p", len(stagingPayload)), g.shared)
}

// stagingTable makes the table of an entry. If unique is set, it has every key once. Its column
// `row` identifies its rows, like `item` in the training table.
func (g *generator) stagingTable(i int, header, aligned string, unique bool) Table {
	t := Table{Name: fmt.Sprintf("features.s%d", i), Header: header, Specs: g.specs("req", "req2", g.counts[i+1], aligned)}
	_, payload, _ := strings.Cut(header, " row:long! ")
	next, row := 0, 0
	keys := g.Perm(len(g.keys))
	t.Commits = g.commits(t.Specs, 2*len(g.keys), func() string {
		key := g.maybe(pick(g.Rand, g.keys...))
		if unique {
			key = null
			if next < len(keys) {
				key = g.keys[keys[next]]
			}
			next++
		}
		row++
		at := g.at().Add(-time.Duration(g.IntN(3)) * 9 * time.Hour)
		return strings.Join(append([]string{
			key, g.maybe(pick(g.Rand, g.second.words...)), g.maybe(strconv.Itoa(g.IntN(5))),
			g.maybe(at.Format(time.DateOnly)), g.maybe(at.Format("2006-01-02T15:04:05")),
			strconv.Itoa(g.IntN(5)), g.maybe(strconv.Itoa(g.IntN(2))), g.maybe(pick(g.Rand, "0.25", "-7.25", "8.25", "NaN", "Inf", "-Inf", "0", "-0")), g.maybe(pick(g.Rand, "eu", "us")),
			g.maybe(strconv.Itoa(g.IntN(9))), g.maybe(pick(g.Rand, "0.5", "0.1", "NaN", "Inf", "-0")), g.maybe(pick(g.Rand, "[]", "[1,2]", "[7,8,9]")), g.maybe(pick(g.Rand, "x", "yy")),
			strconv.Itoa(row),
		}, g.words(payload)...), " ")
	})
	return t
}
