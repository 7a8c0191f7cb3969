package decode_test

import (
	"cmp"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/penstock/penstock/joiner/rule"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/dataset/datasettest"
)

// maker creates random valid values, as decoding returns them.
type maker struct{ *rand.Rand }

func newMaker(t *testing.T, seed uint64) maker {
	t.Helper()
	t.Logf("seed %d", seed)
	return maker{newRand(seed)}
}

func newRand(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 7)) }

func pick[T any](m maker, from ...T) T { return from[m.IntN(len(from))] }

// often returns true with probability 3/4.
func (m maker) often() bool { return m.IntN(4) > 0 }

func (m maker) word() string {
	letters := []rune("abcdefghij_XYZ09é漢<>&\"\\'🙂/:{}[]")
	out := make([]rune, 1+m.IntN(8))
	for i := range out {
		out[i] = pick(m, letters...)
	}
	return string(out)
}

// words returns between least and most different words.
func (m maker) words(least, most int) []string {
	var out []string
	seen := map[string]bool{}
	for want := least + m.IntN(most-least+1); len(out) < want; {
		if w := m.word(); !seen[w] {
			seen[w] = true
			out = append(out, w)
		}
	}
	return out
}

func (m maker) table() string {
	plain := func() string { return strings.Repeat(pick(m, "a", "B", "_", "7", "é"), 1+m.IntN(3)) }
	out := plain() + "." + plain()
	if m.often() {
		return out
	}
	return plain() + "." + out
}

func (m maker) ref() dataset.Ref {
	switch m.IntN(3) {
	case 0:
		return dataset.Ref{Name: "tag " + m.word()}
	case 1:
		return dataset.Ref{Snapshot: 1 + m.Int64N(1<<62)}
	default:
		return dataset.Ref{}
	}
}

func (m maker) filter() dataset.Filter {
	return datasettest.Filter(pick(m, "", "a < 1", "day >= DATE '2026-10-01' and  \"two words\" <> 'it''s < & >'", "x IN (1, 2)\n OR NOT y IS NULL"))
}

func (m maker) columns(least int) []dataset.Column {
	out := []dataset.Column{}
	for _, name := range m.words(least, 4) {
		c := dataset.Column{Column: name}
		if !m.often() {
			c = dataset.Column{Column: m.word(), Name: name}
		}
		if !m.often() {
			c.As = pick(m, "int", "long", "float", "double", "date", "timestamp", "timestamptz")
		}
		switch m.IntN(6) {
		case 0:
			c.First = 1 + m.IntN(1<<31-1)
		case 1:
			c.Last = 1 + m.IntN(100)
		}
		out = append(out, c)
	}
	return out
}

func (m maker) dataset() dataset.Dataset {
	d := dataset.Dataset{Training: dataset.Training{Table: m.table(), Ref: m.ref(), Filter: m.filter()}}
	if m.often() {
		d.Key = m.words(1, 3)
	}
	if d.Key != nil && !m.often() {
		d.Training.RequestLevel = m.words(1, 3)
	}
	if !m.often() {
		d.Training.Distinct = &dataset.Distinct{
			By: m.words(1, 3), Keep: pick(m, dataset.KeepFirst, dataset.KeepLast), OrderBy: m.orderBy(),
			Scope: pick(m, dataset.ScopeTable, dataset.ScopePartition),
		}
	}
	for i, name := range m.words(0, 3) {
		s := dataset.Staging{
			Table: m.table(), Name: name, Ref: m.ref(), Filter: m.filter(),
			MinMatch: pick(m, 0, 1, m.Float64()),
			Strategy: pick(m, rule.StrategyAuto, rule.StrategyIndex, rule.StrategyMerge, rule.StrategyZip,
				rule.StrategyBroadcast, rule.StrategyCustom),
			MaxAmplification: pick(m, 1, dataset.DefaultMaxAmplification, 1+1000*m.Float64()),
			Join:             pick(m, rule.Left, rule.Left, rule.Inner, rule.Semi, rule.Anti, rule.Overlay),
		}
		if s.Strategy.Custom() {
			s.Custom = m.word()
		}
		if i == 0 && m.often() {
			s.Name = s.Table[strings.LastIndexByte(s.Table, '.')+1:] + strings.Repeat("x", m.IntN(2))
		}
		if d.Key == nil || !m.often() {
			names := m.words(2, 2)
			other := m.words(2, 2)
			s.Key = []dataset.KeyPair{{Training: names[1], Staging: other[0]}, {Training: names[0], Staging: other[1]}}
		}
		m.rules(&s)
		if d.Staging != nil && d.Staging[0].Name == s.Name {
			continue
		}
		d.Staging = append(d.Staging, s)
	}
	return d.Defaults()
}

// rules sets rules of an entry that its kind of join allows.
func (m maker) rules(s *dataset.Staging) {
	if m.IntN(3) == 0 {
		s.Align = &dataset.Align{Training: m.word(), Staging: m.word()}
		switch m.IntN(3) {
		case 0:
			s.Align.Rule = dataset.AlignSame
		case 1:
			s.Align.Rule, s.Align.Lag = dataset.AlignLag, m.lag()
		default:
			s.Align.Rule, s.Align.Lag = dataset.AlignLatestBefore, pick(m, m.lag(), dataset.Lag{})
		}
	}
	if m.IntN(3) == 0 {
		s.PointInTime = &dataset.PointInTime{
			Training: m.word(), Staging: pick(m, "", m.word()), Tolerance: pick(m, dataset.Lag{Time: 1 + m.lag().Time}, dataset.Lag{Count: 7}), Exact: m.often(),
			Zone: pick(m, dataset.ZoneNone, dataset.ZoneUTC),
		}
	}
	if s.Join == rule.Semi || s.Join == rule.Anti {
		return
	}
	s.Prefix = pick(m, "", "p_", "é")
	if m.often() {
		s.Columns = m.columns(0)
		if s.Prefix != "" {
			s.Columns = s.Columns[:min(1, len(s.Columns))]
		}
	}
	s.Duplicates = pick(m, rule.DuplicatesError, rule.DuplicatesFirst, rule.DuplicatesLast)
	s.Missing = pick(m, rule.MissingNull, rule.MissingError)
	if s.Join != rule.Overlay && s.PointInTime == nil && m.IntN(3) == 0 {
		s.Duplicates = rule.DuplicatesAll
	}
	if s.Duplicates != rule.DuplicatesError {
		s.OrderBy = m.orderBy()
	}
	if s.Join == rule.Overlay {
		s.Nulls = pick(m, rule.NullsKeep, rule.NullsReplace)
	}
	if s.Join == rule.Inner {
		return
	}
	s.MatchedAs = pick(m, "", strings.Repeat("matched", 2))
	if s.Columns == nil && m.often() {
		s.Missing = rule.MissingDefault
		for _, name := range m.words(1, 3) {
			s.Defaults = append(s.Defaults, dataset.Default{Column: name, Value: m.value()})
		}
		slices.SortFunc(s.Defaults, func(a, b dataset.Default) int { return strings.Compare(a.Column, b.Column) })
	}
}

func (m maker) lag() dataset.Lag {
	return pick(m,
		dataset.Lag{Months: 1 + m.IntN(120_000)}, dataset.Lag{Count: 1 + m.Int64()},
		dataset.Lag{Time: time.Duration(1 + m.Int64N(1<<62))}, dataset.Lag{Time: time.Hour * time.Duration(1+m.IntN(100))})
}

func (m maker) value() any {
	return pick[any](m, nil, true, false, int64(m.Uint64()), float64(m.IntN(3)), m.NormFloat64()*1e9, 1e300, -0.25, m.word(), "")
}

func (m maker) orderBy() []dataset.OrderBy {
	if m.often() {
		return nil
	}
	var out []dataset.OrderBy
	for _, name := range m.words(1, 3) {
		name += pick(m, "", " asc", " DESC", " ")
		out = append(out, dataset.OrderBy{Column: name, Descending: m.often()})
	}
	return out
}

func (m maker) sample() *dataset.Sample {
	out := &dataset.Sample{By: dataset.SampleByRequest, Rate: 1}
	if m.often() {
		out.Hash = &dataset.HashRange{From: pick(m, 0, 1, m.Float64()), To: m.Float64()}
		out.By = pick(m, dataset.SampleByRequest, dataset.SampleByKey)
	}
	if m.often() {
		out.Rate, out.Where = pick(m, 1, 1-m.Float64()), m.filter()
	}
	return out
}

func (m maker) since() int64 { return pick(m, 0, 0, 1, 1+m.Int64N(1<<62)) }

func (m maker) tablePin() dataset.TablePin {
	return dataset.TablePin{UUID: m.word(), Snapshot: pick(m, dataset.NoSnapshot, 0, 1, m.Int64()), Schema: m.IntN(5), Mapping: pick(m, dataset.NoMapping, dataset.OwnNames, m.word())}
}

func (m maker) pin() dataset.Pin {
	out := dataset.Pin{Training: m.tablePin(), Staging: map[string]dataset.TablePin{}}
	for _, name := range m.words(0, 3) {
		out.Staging[name] = m.tablePin()
	}
	return out
}

// partial removes parts of a pin that a query may omit.
func (m maker) partial(pin dataset.Pin) dataset.Pin {
	less := func(t dataset.TablePin) dataset.TablePin {
		if m.IntN(2) == 0 || t.Snapshot < 1 {
			return t
		}
		return dataset.TablePin{Snapshot: t.Snapshot}
	}
	out := dataset.Pin{Training: less(pin.Training), Staging: map[string]dataset.TablePin{}}
	if m.IntN(4) == 0 {
		out.Training = dataset.TablePin{}
	}
	for _, name := range slices.Sorted(maps.Keys(pin.Staging)) { // so that a seed gives the same values
		if m.IntN(4) > 0 {
			out.Staging[name] = less(pin.Staging[name])
		}
	}
	return out
}

// readCursors returns the cursors of all shards of one run, in ascending order.
func (m maker) cursors() dataset.Cursors {
	of := 1 + m.IntN(4)
	one := dataset.Cursor{
		Rows:    dataset.Rows{Dataset: m.word(), Filter: m.filter(), Sample: pick(m, nil, m.sample().Normal()), Since: m.since(), Seed: int64(m.Uint64()), Epoch: m.Int64(), Lanes: of * (1 + m.IntN(4)), Pin: m.pin()},
		Version: dataset.CursorVersion, Plan: m.word(), Algorithm: 1 + m.IntN(3), Step: m.Int64N(1<<50 + 1), Given: m.Int64N(1<<50 + 1), Uneven: !m.often(),
	}
	one.Order, one.Shuffle, one.ShuffleWindow = m.order()
	if one.Shuffle == "" {
		one.Shuffle = dataset.ShuffleRows
	}
	one.Requests = one.Shuffle != dataset.ShuffleRows && !m.often()
	windows, _ := one.Shuffle.Windows()
	if windows {
		one.ShuffleWindow = cmp.Or(one.ShuffleWindow, dataset.DefaultShuffleWindow)
		one.ShuffleParts = 1 + m.Int64N(64)
	}
	var counts *dataset.Counts
	if !m.often() {
		rows := make([]int64, one.Lanes)
		for i := range rows {
			rows[i] = m.Int64N(1 << 50)
		}
		counts = dataset.NewCounts(rows)
	}
	out := make(dataset.Cursors, of)
	for i := range out {
		c := one
		c.Shard = dataset.Shard{Index: i, Of: of}
		for lane := i; lane < c.Lanes; lane += of {
			at := dataset.Position{Lane: lane, Range: m.IntN(1000), Row: m.Int64()}
			if windows {
				at.Window = pick(m, 0, m.Int64())
			}
			c.At = append(c.At, at)
		}
		if counts != nil {
			c.Counted = counts.Of(c.Shard)
		}
		out[i] = c
	}
	return out
}

// readOrder returns an order, a shuffle and a shuffle window.
func (m maker) order() (dataset.Order, dataset.Shuffle, int64) {
	if m.often() {
		return dataset.Stored, dataset.ShuffleSplits, 0
	}
	shuffle := pick(m, "", dataset.ShuffleSplits, dataset.ShuffleRequests, dataset.ShuffleRows)
	if shuffle == dataset.ShuffleSplits {
		return dataset.Shuffled, shuffle, 0
	}
	return dataset.Shuffled, shuffle, pick(m, 0, 1+int64(m.IntN(1<<20)))
}

// agree makes a query agree with its cursor: it repeats each field of the plan or leaves
// it out. It sets any filter, because comparing filters requires the schemas of the
// tables.
func (m maker) agree(q *dataset.Query) {
	c := q.Cursor[0]
	q.Filter = pick(m, dataset.Filter{}, m.filter())
	q.Sample = nil
	if m.IntN(2) == 0 {
		q.Sample = c.Sample
	}
	q.Order, q.Shuffle, q.ShuffleWindow = pick(m, "", c.Order), pick(m, "", c.Shuffle), pick(m, 0, c.ShuffleWindow)
	q.Seed, q.Epoch, q.ShuffleParts = pick(m, 0, c.Seed), pick(m, 0, c.Epoch), pick(m, 0, c.ShuffleParts)
}

func (m maker) dense() []dataset.Dense {
	var out []dataset.Dense
	for _, name := range m.words(1, 3) {
		one := dataset.Dense{Name: name, Columns: m.columns(1)}
		for i := range one.Columns {
			one.Columns[i].Name = ""
		}
		if m.often() {
			fill := pick(m, 0, -1.5, 1e30, float32(math.Copysign(0, -1)), m.Float32())
			one.Fill = &fill
		}
		out = append(out, one)
	}
	return out
}

func (m maker) query() dataset.Query {
	q := dataset.Query{
		Rows:    dataset.Rows{Filter: m.filter(), Seed: pick(m, 0, int64(m.Uint64())), Epoch: pick(m, 0, m.Int64())},
		Reading: dataset.Reading{Tail: pick(m, dataset.TailKeep, dataset.TailDrop), Count: pick(m, dataset.CountEstimate, dataset.CountExact), Wire: pick(m, dataset.WirePlain, dataset.WireIndexed, dataset.WireAuto)},
	}
	if !m.often() {
		q.Job = pick(m, "j", "sweep-7/rank:0@host", strings.Repeat("Z", dataset.MaxJob))
	}
	q.Order, q.Shuffle, q.ShuffleWindow = m.order()
	if q.ShuffleWindow > 0 {
		q.ShuffleParts = m.Int64N(65)
	}
	if !q.Order.IsShuffled() {
		q.Seed = 0
	}
	if m.often() {
		q.Dataset = m.word()
	} else {
		d := m.dataset()
		q.Inline = &d
	}
	if m.often() {
		q.Columns = m.columns(1)
	}
	if !m.often() {
		q.Dense = m.dense()
	}
	if !m.often() {
		q.Sample = m.sample()
	}
	q.Since = m.since()
	if !m.often() {
		q.Pin = m.partial(m.pin())
	}
	perStep := 1 + m.IntN(5)
	if m.often() {
		of := 1 + m.IntN(5)
		q.Shard = dataset.Shard{Index: pick(m, dataset.AllShards, m.IntN(of)), Of: of}
		q.Lanes = pick(m, 0, of*perStep)
	}
	if !m.often() {
		all := m.cursors()
		q.Cursor = all[:1+m.IntN(len(all))]
		q.Lanes, q.Order, q.Shuffle, q.ShuffleWindow, q.ShuffleParts = 0, "", "", 0, 0
		q.Shard.Of = pick(m, 0, 1, q.Cursor[0].Lanes)
		q.Shard.Index = pick(m, dataset.AllShards, m.IntN(max(1, q.Shard.Of)))
		q.Pin, q.Since = dataset.Pin{}, 0
		if m.often() {
			q.Pin = m.partial(q.Cursor[0].Pin)
		}
		m.agree(&q)
	}
	q = q.Defaults()
	switch m.IntN(6) {
	case 0:
		q.BatchRows = q.Lanes / q.Shard.Of * (1 + m.IntN(100))
	case 1:
		q.GlobalBatchRows = q.Lanes * (1 + m.IntN(100))
	case 2:
		q.BatchRequests = q.Lanes / q.Shard.Of * (1 + m.IntN(100))
	}
	if len(q.Cursor) > 0 && q.Cursor[0].Requests {
		q.BatchRows, q.GlobalBatchRows, q.BatchRequests = 0, 0, q.Lanes/q.Shard.Of*(1+m.IntN(100))
	} else if len(q.Cursor) > 0 || q.Shuffle == dataset.ShuffleRows {
		q.BatchRequests = 0
	}
	switch {
	case q.Shard.Of > 1 || q.Tail.Drops():
	case q.BatchRequests > 0 && q.Lanes != 1:
	case q.Lanes == 1 && q.Shuffle == dataset.ShuffleSplits && !m.often():
		q.Endpoints = dataset.EndpointsSplits
	case !m.often() && q.BatchRequests == 0:
		q.Limit = pick(m, 1, 1+m.Int64N(1<<62))
	}
	if !m.often() && q.Limit == 0 && !q.Endpoints.BySplits() {
		of := 1 + m.IntN(5)
		q.Every = dataset.Every{Step: m.IntN(of), Of: of}
	}
	return q.Defaults()
}
