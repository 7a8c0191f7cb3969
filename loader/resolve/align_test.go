package resolve_test

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/dataset"
)

// by is the partition field of an aligned table: a transform of its column.
type by struct {
	transform catalog.TransformKind
	column    arrow.DataType
}

func aligned(name string, b by, values ...any) (*catalog.Table, []catalog.File) {
	t := table(name, []catalog.Field{
		field(1, "request_id", arrow.PrimitiveTypes.Int64, true), field(2, "ts", b.column, false), field(3, name[len(name)-1:], arrow.PrimitiveTypes.Int64, false),
	}, catalog.Spec{{ID: 1000, Source: 2, Name: "part", Transform: catalog.Transform{Kind: b.transform}}})
	files := make([]catalog.File, len(values))
	for i, v := range values {
		files[i] = catalog.File{Location: fmt.Sprint(v), Partition: []any{v}, Rows: 1}
	}
	return t, files
}

func alignedTables(training, staging by, rule dataset.Align, trainingValues, stagingValues []any) tables {
	s := tables{entry: dataset.Staging{Table: "ml.s", Key: []dataset.KeyPair{{Training: "request_id", Staging: "request_id"}}, Align: &rule}}
	s.training, s.trainingFiles = aligned("ml.t", training, trainingValues...)
	s.staging, s.stagingFiles = aligned("ml.s", staging, stagingValues...)
	s.entry.Columns = []dataset.Column{}
	return s
}

func timestamp() arrow.DataType { return &arrow.TimestampType{Unit: arrow.Microsecond} }

func day(text string) int64 {
	at, err := time.Parse(time.DateOnly, text)
	if err != nil {
		return 0
	}
	return at.Unix() / 86400
}

// TestAlign: each training partition is aligned with at most one staging partition, by its
// rule.
//
// spec: resolve-25, resolve-26, resolve-27
func TestAlign(t *testing.T) {
	t.Parallel()
	days, hours := by{catalog.Day, timestamp()}, by{catalog.Hour, timestamp()}
	months, years := by{catalog.Month, timestamp()}, by{catalog.Year, timestamp()}
	dates, whole := by{catalog.Identity, arrow.FixedWidthTypes.Date32}, by{catalog.Identity, arrow.PrimitiveTypes.Int32}
	text := by{catalog.Identity, arrow.BinaryTypes.String}
	for name, c := range map[string]struct {
		training, staging by
		rule              dataset.AlignRule
		lag               dataset.Lag
		from              any
		exist             []any
		want              any // nil: none
	}{
		"the same day":                      {days, days, dataset.AlignSame, dataset.Lag{}, int64(5), []any{int64(4), int64(5)}, int64(5)},
		"the same day is absent":            {days, days, dataset.AlignSame, dataset.Lag{}, int64(6), []any{int64(4), int64(5)}, nil},
		"a null matches nothing":            {days, days, dataset.AlignSame, dataset.Lag{}, nil, []any{nil, int64(5)}, nil},
		"a date and its timestamps":         {dates, days, dataset.AlignSame, dataset.Lag{}, int64(-3), []any{int64(-3)}, int64(-3)},
		"the day of an hour":                {hours, days, dataset.AlignSame, dataset.Lag{}, int64(-1), []any{int64(-1), int64(0)}, int64(-1)},
		"the month of a day":                {days, months, dataset.AlignSame, dataset.Lag{}, day("2026-03-31"), []any{int64(56*12 + 1), int64(56*12 + 2)}, int64(56*12 + 2)},
		"the year of a month before 1970":   {months, years, dataset.AlignSame, dataset.Lag{}, int64(-1), []any{int64(-1), int64(0)}, int64(-1)},
		"the same string":                   {text, text, dataset.AlignSame, dataset.Lag{}, "b", []any{"a", "b"}, "b"},
		"a day before":                      {days, days, dataset.AlignLag, dataset.Lag{Time: 24 * time.Hour}, int64(5), []any{int64(3), int64(4), int64(5)}, int64(4)},
		"a day before, absent":              {days, days, dataset.AlignLag, dataset.Lag{Time: 24 * time.Hour}, int64(5), []any{int64(3), int64(5)}, nil},
		"an hour before a day":              {days, hours, dataset.AlignLag, dataset.Lag{Time: time.Hour}, int64(5), []any{int64(5*24 - 2), int64(5*24 - 1), int64(5 * 24)}, int64(5*24 - 1)},
		"a day before an hour":              {hours, days, dataset.AlignLag, dataset.Lag{Time: 24 * time.Hour}, int64(5*24 + 23), []any{int64(4), int64(5)}, int64(4)},
		"two months before":                 {months, months, dataset.AlignLag, dataset.Lag{Months: 2}, int64(1), []any{int64(-1), int64(0)}, int64(-1)},
		"a month before a day":              {days, months, dataset.AlignLag, dataset.Lag{Months: 1}, day("2026-03-31"), []any{int64(56*12 + 1), int64(56*12 + 2)}, int64(56*12 + 1)},
		"a year before a month":             {months, years, dataset.AlignLag, dataset.Lag{Months: 12}, int64(23), []any{int64(0), int64(1)}, int64(0)},
		"three before":                      {whole, whole, dataset.AlignLag, dataset.Lag{Count: 3}, int64(5), []any{int64(2), int64(4)}, int64(2)},
		"latest day":                        {days, days, dataset.AlignLatestBefore, dataset.Lag{}, int64(5), []any{int64(1), int64(3), int64(5)}, int64(3)},
		"latest day, two days at least":     {days, days, dataset.AlignLatestBefore, dataset.Lag{Time: 48 * time.Hour}, int64(5), []any{int64(1), int64(3), int64(5)}, int64(1)},
		"latest hour before a day":          {days, hours, dataset.AlignLatestBefore, dataset.Lag{}, int64(1), []any{int64(23), int64(24)}, int64(23)},
		"latest day before an hour":         {hours, days, dataset.AlignLatestBefore, dataset.Lag{}, int64(47), []any{int64(0), int64(1)}, int64(0)},
		"latest day before midnight's hour": {hours, days, dataset.AlignLatestBefore, dataset.Lag{}, int64(48), []any{int64(0), int64(1)}, int64(1)},
		"latest, none":                      {days, days, dataset.AlignLatestBefore, dataset.Lag{}, int64(1), []any{int64(1), int64(3)}, nil},
		"latest, a month and a short one":   {days, days, dataset.AlignLatestBefore, dataset.Lag{Months: 1}, day("2026-03-31"), []any{day("2026-02-27"), day("2026-02-28")}, day("2026-02-27")},
		"latest whole number":               {whole, whole, dataset.AlignLatestBefore, dataset.Lag{Count: 2}, int64(5), []any{int64(3), int64(4)}, int64(3)},
		"latest whole number is before":     {whole, whole, dataset.AlignLatestBefore, dataset.Lag{}, int64(5), []any{int64(4), int64(5)}, int64(4)},
		"latest string":                     {text, text, dataset.AlignLatestBefore, dataset.Lag{}, "c", []any{"a", "b", "c"}, "b"},
		"no staging files":                  {days, days, dataset.AlignLatestBefore, dataset.Lag{}, int64(5), nil, nil},
	} {
		s := alignedTables(c.training, c.staging, dataset.Align{Training: "ts", Staging: "part", Rule: c.rule, Lag: c.lag}, []any{c.from}, c.exist)
		got := s.names(t)[0]
		if c.want == nil {
			require.Nil(t, got, name)
			continue
		}
		require.Equal(t, []string{fmt.Sprint(c.want)}, got, name)
	}
}

// TestAlignedPartitionsHoldNoFuture draws rules and partitions and checks the time itself: with
// lag and latest_before, the staging partition ends before the training partition
// starts.
//
// spec: resolve-26, resolve-27
func TestAlignedPartitionsHoldNoFuture(t *testing.T) {
	t.Parallel()
	kinds := []catalog.TransformKind{catalog.Year, catalog.Month, catalog.Day, catalog.Hour}
	start := func(kind catalog.TransformKind, v int64) time.Time {
		epoch := time.Date(1970, 1, 1, 0, 0, 0, 0, time.UTC)
		switch kind {
		case catalog.Year:
			return epoch.AddDate(int(v), 0, 0)
		case catalog.Month:
			return epoch.AddDate(0, int(v), 0)
		case catalog.Day:
			return epoch.AddDate(0, 0, int(v))
		default:
			return epoch.Add(time.Duration(v) * time.Hour)
		}
	}
	matched := 0
	for seed := range uint64(3000) {
		r := rand.New(rand.NewPCG(seed, 11))
		a, b := kinds[r.IntN(4)], kinds[r.IntN(4)]
		lag := []dataset.Lag{{Time: time.Hour}, {Time: 24 * time.Hour}, {Time: 36 * time.Hour}, {Months: 1}, {Months: 12}, {Months: 5}}[r.IntN(6)]
		rule := dataset.AlignLag
		if r.IntN(2) == 0 {
			rule = dataset.AlignLatestBefore
		}
		width := map[catalog.TransformKind]int64{catalog.Year: 3, catalog.Month: 30, catalog.Day: 300, catalog.Hour: 3000}
		from := r.Int64N(2*width[a]) - width[a]
		var exist []any
		present := map[int64]bool{}
		for range 1 + r.IntN(60) {
			v := r.Int64N(2*width[b]) - width[b]
			if !present[v] {
				present[v] = true
				exist = append(exist, v)
			}
		}
		s := alignedTables(by{a, timestamp()}, by{b, timestamp()}, dataset.Align{Training: "part", Staging: "ts", Rule: rule, Lag: lag}, []any{from}, exist)
		m, err := s.match(t)
		require.NoError(t, err)
		group, _, err := m.Group(s.trainingFiles)
		if err != nil || group < 0 {
			continue
		}
		matched++
		require.Len(t, m.Sets()[group], 1)
		got, _ := s.stagingFiles[m.Sets()[group][0]].Partition[0].(int64)
		end, begin := start(b, got+1), start(a, from)
		require.False(t, end.After(begin), "%s %d is aligned with %s %d", a, from, b, got)
		if rule != dataset.AlignLatestBefore {
			continue
		}
		for v := range present {
			if v > got && lag.Months == 0 {
				require.True(t, start(b, v+1).After(begin.Add(-lag.Time)), "%s %d is later than %d, and before %s %d", b, v, got, a, from)
			}
		}
	}
	require.Greater(t, matched, 500)
}

// spec: resolve-28, resolve-29
func TestAlignRefuses(t *testing.T) {
	t.Parallel()
	days, hours, months := by{catalog.Day, timestamp()}, by{catalog.Hour, timestamp()}, by{catalog.Month, timestamp()}
	whole, text := by{catalog.Identity, arrow.PrimitiveTypes.Int64}, by{catalog.Identity, arrow.BinaryTypes.String}
	for name, c := range map[string]struct {
		training, staging by
		rule              dataset.AlignRule
		lag               dataset.Lag
		field, message    string
	}{
		"hours within a day":      {days, hours, dataset.AlignSame, dataset.Lag{}, "rule", "partitioned by hour, finer than ml.t by day"},
		"half a day":              {days, days, dataset.AlignLag, dataset.Lag{Time: 12 * time.Hour}, "lag", "not a whole number of days"},
		"a day and a half":        {days, days, dataset.AlignLag, dataset.Lag{Time: 36 * time.Hour}, "lag", "not a whole number of days"},
		"days of months":          {days, months, dataset.AlignLag, dataset.Lag{Time: 24 * time.Hour}, "lag", "not a whole number of months"},
		"a month of days":         {days, days, dataset.AlignLag, dataset.Lag{Months: 1}, "lag", "not a whole number of days"},
		"no lag":                  {days, days, dataset.AlignLag, dataset.Lag{}, "lag", "leaks future data"},
		"a negative lag":          {days, days, dataset.AlignLag, dataset.Lag{Time: -24 * time.Hour}, "lag", "leaks future data"},
		"a negative count":        {whole, whole, dataset.AlignLatestBefore, dataset.Lag{Count: -1}, "lag", "leaks future data"},
		"a count of days":         {days, days, dataset.AlignLag, dataset.Lag{Count: 1}, "lag", "write a duration"},
		"a duration of numbers":   {whole, whole, dataset.AlignLag, dataset.Lag{Time: time.Hour}, "lag", "write a count"},
		"days and numbers":        {days, whole, dataset.AlignSame, dataset.Lag{}, "staging", "cannot be aligned"},
		"numbers and strings":     {whole, text, dataset.AlignSame, dataset.Lag{}, "staging", "cannot be aligned"},
		"distances of strings":    {text, text, dataset.AlignLag, dataset.Lag{Count: 1}, "rule", "no distance"},
		"strings one apart":       {text, text, dataset.AlignLatestBefore, dataset.Lag{Count: 1}, "rule", "no distance"},
		"strings without any lag": {text, text, dataset.AlignLag, dataset.Lag{}, "rule", "no distance"},
	} {
		value := func(b by) []any {
			if b == text {
				return []any{"a"}
			}
			return []any{int64(1)}
		}
		s := alignedTables(c.training, c.staging, dataset.Align{Training: "ts", Staging: "ts", Rule: c.rule, Lag: c.lag}, value(c.training), value(c.staging))
		if c.rule == dataset.AlignLag && c.lag == (dataset.Lag{}) {
			s.entry.Align.Rule = dataset.AlignLag
		}
		m, err := s.match(t)
		require.NoError(t, err, name)
		_, _, err = m.Group(s.trainingFiles)
		require.ErrorContains(t, err, c.message, name)
		require.Equal(t, "staging[0].align."+c.field, fault.As(err).Faults[0].Field, name)
	}
}

// spec: resolve-29
func TestAlignNamesTheFileWithoutTheField(t *testing.T) {
	t.Parallel()
	days := by{catalog.Day, timestamp()}
	rule := dataset.Align{Training: "ts", Staging: "ts", Rule: dataset.AlignSame}
	bare := catalog.File{Location: "bare", Spec: 1}
	s := alignedTables(days, days, rule, []any{int64(1)}, []any{int64(1)})
	s.staging.Specs[1] = nil
	s.stagingFiles = append(s.stagingFiles, bare)
	_, err := s.match(t)
	require.Equal(t, fault.Invalid, fault.KindOf(err))
	require.Equal(t, "bare", fault.As(err).File)
	require.Contains(t, fault.As(err).Remedy, "ALTER TABLE ml.s ADD PARTITION FIELD ts")

	s = alignedTables(days, days, rule, []any{int64(1)}, []any{int64(1)})
	s.training.Specs[1] = nil
	m, err := s.match(t)
	require.NoError(t, err)
	_, _, err = m.Group([]catalog.File{bare})
	require.Equal(t, "ml.t", fault.As(err).Table)
	require.Equal(t, "bare", fault.As(err).File)

	s = alignedTables(days, days, rule, []any{int64(1)}, []any{int64(1)})
	s.staging.Specs[1] = catalog.Spec{{ID: 1001, Source: 2, Name: "month", Transform: catalog.Transform{Kind: catalog.Month}}}
	s.stagingFiles = append(s.stagingFiles, catalog.File{Location: "old", Spec: 1, Partition: []any{int64(1)}})
	_, err = s.match(t)
	require.ErrorContains(t, err, "partitioned by day and by month")
	require.Equal(t, "old", fault.As(err).File)
}

// TestFinestFieldOfAColumnAligns: a column may be partitioned twice.
func TestFinestFieldOfAColumnAligns(t *testing.T) {
	t.Parallel()
	days := by{catalog.Day, timestamp()}
	s := alignedTables(days, days, dataset.Align{Training: "ts", Staging: "ts", Rule: dataset.AlignSame}, []any{int64(40)}, nil)
	s.staging.Specs[0] = catalog.Spec{
		{ID: 1000, Source: 2, Name: "m", Transform: catalog.Transform{Kind: catalog.Month}},
		{ID: 1001, Source: 2, Name: "d", Transform: catalog.Transform{Kind: catalog.Day}},
		{ID: 1002, Source: 2, Name: "b", Transform: catalog.Transform{Kind: catalog.Bucket, N: 4}},
	}
	s.stagingFiles = []catalog.File{
		{Location: "day 40", Partition: []any{int64(1), int64(40), int64(0)}}, {Location: "day 41", Partition: []any{int64(1), int64(41), int64(0)}},
	}
	require.Equal(t, [][]string{{"day 40"}}, s.names(t))
	s.entry.Align.Staging = "m"
	require.Equal(t, [][]string{{"day 40", "day 41"}}, s.names(t))
}

// renamed returns alignedTables of ten days in which the field named day is derived from column
// ts, although there is a column day. Each file is in one day of ts, and in the next day of
// the column.
func renamed(name string, fields ...catalog.PartitionField) (*catalog.Table, []catalog.File) {
	t := table(name, []catalog.Field{
		field(1, "request_id", arrow.PrimitiveTypes.Int64, true), field(2, "ts", timestamp(), false), field(3, "day", arrow.FixedWidthTypes.Date32, false),
	}, fields)
	files := make([]catalog.File, 10)
	for i := range files {
		files[i] = catalog.File{Location: strconv.Itoa(i), Rows: 1}
		for _, f := range fields {
			files[i].Partition = append(files[i].Partition, int64(i)+int64(f.Source-2))
		}
	}
	return t, files
}

// TestAlignByNameOfAColumn: a field with the name of another column is not mistaken for that
// column's.
//
// spec: resolve-46
func TestAlignByNameOfAColumn(t *testing.T) {
	t.Parallel()
	misnamed := catalog.PartitionField{ID: 1000, Source: 2, Name: "day", Transform: catalog.Transform{Kind: catalog.Day}}
	own := catalog.PartitionField{ID: 1001, Source: 3, Name: "date", Transform: catalog.Transform{Kind: catalog.Identity}}
	for name, want := range map[string]string{"day": "5", "date": "5", "ts": "6"} {
		s := alignedTables(by{}, by{}, dataset.Align{Training: "part", Staging: name, Rule: dataset.AlignSame}, nil, nil)
		s.training, s.trainingFiles = aligned("ml.t", by{catalog.Day, timestamp()}, int64(6))
		s.staging, s.stagingFiles = renamed("ml.s", misnamed, own)
		require.Equal(t, [][]string{{want}}, s.names(t), "staging %s", name)

		s = alignedTables(by{}, by{}, dataset.Align{Training: name, Staging: "part", Rule: dataset.AlignSame}, nil, nil)
		s.training, s.trainingFiles = renamed("ml.t", misnamed, own)
		s.trainingFiles = s.trainingFiles[5:6]
		s.staging, s.stagingFiles = aligned("ml.s", by{catalog.Day, timestamp()}, int64(5), int64(6))
		require.Equal(t, [][]string{{map[string]string{"5": "6", "6": "5"}[want]}}, s.names(t), "training %s", name)
	}
	s := alignedTables(by{}, by{}, dataset.Align{Training: "part", Staging: "day", Rule: dataset.AlignSame}, nil, nil)
	s.training, s.trainingFiles = aligned("ml.t", by{catalog.Day, timestamp()}, int64(6))
	s.staging, s.stagingFiles = renamed("ml.s", misnamed)
	_, err := s.match(t)
	require.Equal(t, fault.Invalid, fault.KindOf(err))
	require.ErrorContains(t, err, "cannot be aligned by day: one of its files is not partitioned by it")
}

// TestAlignByFieldOfTwoColumns: a later spec may reuse a field's name for another column.
//
// spec: resolve-47
func TestAlignByFieldOfTwoColumns(t *testing.T) {
	t.Parallel()
	first := catalog.PartitionField{ID: 1000, Source: 2, Name: "part", Transform: catalog.Transform{Kind: catalog.Day}}
	then := catalog.PartitionField{ID: 1001, Source: 3, Name: "part", Transform: catalog.Transform{Kind: catalog.Identity}}
	later := catalog.File{Location: "later", Spec: 1, Partition: []any{int64(6)}}
	both := func(name string) (*catalog.Table, []catalog.File) {
		made, files := renamed(name, first)
		made.Specs[1] = catalog.Spec{then}
		return made, append(files, later)
	}
	refused := func(err error, table string) {
		t.Helper()
		require.Equal(t, fault.Invalid, fault.KindOf(err))
		require.ErrorContains(t, err, "in some files it is derived from column ts, in others from column day")
		require.Equal(t, []string{table, "later"}, []string{fault.As(err).Table, fault.As(err).File})
	}
	s := alignedTables(by{}, by{}, dataset.Align{Training: "part", Staging: "part", Rule: dataset.AlignSame}, nil, nil)
	s.training, s.trainingFiles = aligned("ml.t", by{catalog.Day, timestamp()}, int64(6))
	s.staging, s.stagingFiles = both("ml.s")
	_, err := s.match(t)
	refused(err, "ml.s")

	s.staging, s.stagingFiles = aligned("ml.s", by{catalog.Day, timestamp()}, int64(5), int64(6))
	s.training, s.trainingFiles = both("ml.t")
	m, err := s.match(t)
	require.NoError(t, err)
	_, _, err = m.Group(s.trainingFiles[5:6])
	require.NoError(t, err)
	_, _, err = m.Group([]catalog.File{later})
	refused(err, "ml.t")
}
