package resolve

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/penstock/penstock/loader/catalog"
)

// NoGroup is the file group of training rows that nothing can match.
const NoGroup = -1

// Match finds the files of one staging table that may hold the keys of given
// training rows. Equal sets of files are one class, numbered as they are asked
// for; where both tables have one layout with one bucket pair, classes are the
// residues modulo its Modulus. It is used by one goroutine.
type Match struct {
	staging  Staging
	training *catalog.Table
	files    []catalog.File // that the staging filter left
	facts    []facts        // of each
	specs    []int          // of the files, ascending
	align    *aligned       // nil: partitions are not aligned
	pairings map[int][]*Pairing
	classes  map[string]int // by the set of files
	known    map[string]int // classes by what tells training rows apart
	sets     [][]int32
	text     []byte // scratch
}

// facts are what manifests say of one staging file.
type facts struct {
	keys []interval // per key column, by partition values; nil if they say nothing
	full []interval // the same, narrowed by statistics; nil if they say nothing
	time interval   // of a point-in-time rule
	part int32      // that alignment goes by
	none bool       // no row can match
}

// Pairing is how training files of one partition spec find staging files of
// another.
type Pairing struct {
	Training, Staging int          // the specs' ids
	Buckets           []BucketPair // key columns that both bucket
	Partitions        bool         // partition values of key columns narrow the match
	Statistics        bool         // value ranges of key columns do, as no bucket does

	files   map[string][]int32 // staging files by their aligned partition and residues
	ladders map[string]ladder  // the same, by their first key; made when they are asked for
}

// NewMatch prepares matching for one staging entry of a relation: training
// holds all training files, all the staging table's, kept those of them that
// the entry's filter left. A layout that the entry's rules cannot be served
// from is Invalid.
func NewMatch(r *Relation, staging int, training, all, kept []catalog.File) (*Match, error) {
	s := r.Staging[staging]
	m := &Match{
		staging: s, training: r.Training, files: kept,
		pairings: map[int][]*Pairing{}, classes: map[string]int{}, known: map[string]int{},
	}
	if s.Align != nil {
		var err error
		if m.align, err = newAligned(*s.Align, fmt.Sprintf("staging[%d].align", staging), r.Training, s.Pinned, all); err != nil {
			return nil, err
		}
	}
	for _, f := range kept {
		m.facts = append(m.facts, m.factsOf(f))
		m.specs = append(m.specs, f.Spec)
	}
	slices.Sort(m.specs)
	m.specs = slices.Compact(m.specs)
	m.seed(training)
	return m, nil
}

// whole says that the table is searched as one, whatever its layout.
func (m *Match) whole() bool { return m.staging.whole() }

// whole says that the layout of the keys narrows nothing: the entry broadcasts
// its table, or a custom strategy searches it, which may find keys that are not
// equal.
func (s Staging) whole() bool { return s.Strategy.Whole() }

// factsOf collects what is known of a staging file.
func (m *Match) factsOf(f catalog.File) facts {
	var out facts
	spec := m.staging.Pinned.Specs[f.Spec]
	keys, full := make([]interval, len(m.staging.Keys)), make([]interval, len(m.staging.Keys))
	for i, k := range m.staging.Keys {
		values := statistics(f, k.Staging)
		keys[i] = within(spec, f.Partition, k.Staging)
		full[i] = keys[i].and(values)
		out.none = out.none || full[i].empty
		if keys[i].bounded() && !m.whole() {
			out.keys = keys
		}
		if values.bounded() && !m.whole() {
			out.full = full
		}
	}
	if t := m.staging.Time; t != nil {
		out.time = within(spec, f.Partition, t.Staging).and(statistics(f, t.Staging))
		out.none = out.none || out.time.empty
	}
	if m.align != nil {
		part, ok := m.align.part(f)
		out.part, out.none = part, out.none || !ok
	}
	return out
}

// within is what the partition values of a file say of a column.
func within(spec catalog.Spec, partition []any, column catalog.Field) interval {
	var out interval
	for i, p := range spec {
		if p.Source == column.ID {
			out = out.and(partitioned(p, partition[i], column))
		}
	}
	return out
}

// pair returns how training files of a spec find the staging files.
func (m *Match) pair(training int) []*Pairing {
	if pairings, ok := m.pairings[training]; ok {
		return pairings
	}
	pairings := make([]*Pairing, 0, len(m.specs))
	for _, spec := range m.specs {
		p := &Pairing{Training: training, Staging: spec, files: map[string][]int32{}, ladders: map[string]ladder{}}
		if !m.whole() {
			p.Buckets = bucketPairs(m.staging.Keys, m.training.Specs[training], m.staging.Pinned.Specs[spec])
		}
		for i, f := range m.files {
			if f.Spec != spec || m.facts[i].none {
				continue
			}
			p.Partitions = p.Partitions || m.facts[i].keys != nil
			p.Statistics = p.Statistics || m.facts[i].full != nil && len(p.Buckets) == 0
			m.text = binary.AppendVarint(m.text[:0], int64(m.facts[i].part))
			for _, b := range p.Buckets {
				m.text = binary.AppendVarint(m.text, int64(m.staging.Pinned.Specs[spec][b.at].Bucket(f.Partition[b.at]).ID%b.Modulus))
			}
			p.files[string(m.text)] = append(p.files[string(m.text)], int32(i))
		}
		pairings = append(pairings, p)
	}
	m.pairings[training] = pairings
	return pairings
}

// seed numbers the classes by their residues where both tables have one
// layout, and nothing but one pair of buckets tells rows apart.
func (m *Match) seed(training []catalog.File) {
	if len(training) == 0 || len(m.specs) != 1 || m.align != nil || m.staging.Time != nil ||
		slices.ContainsFunc(training, func(f catalog.File) bool { return f.Spec != training[0].Spec }) {
		return
	}
	p := m.pair(training[0].Spec)[0]
	if len(p.Buckets) != 1 || p.Partitions {
		return
	}
	for r := range p.Buckets[0].Modulus {
		key := binary.AppendVarint(binary.AppendVarint(nil, 0), int64(r))
		m.known[string(binary.AppendVarint(nil, int64(p.Training)))+string(key)] = r
		m.sets = append(m.sets, p.files[string(key)])
	}
}

// rows is what is known of the training rows of one split.
type rows struct {
	keys, full []interval // per key column, as in facts
	time       interval   // the times of staging rows that they can meet
	part       int32
}

// Group returns the file group of the training rows of files of one partition,
// or NoGroup; and whether a staging partition is aligned with theirs, which is
// true if nothing is aligned.
func (m *Match) Group(files []catalog.File) (class int, exists bool, err error) {
	var r rows
	if m.align != nil {
		if r.part, err = m.align.of(files[0]); err != nil || r.part == noPart {
			return NoGroup, false, err
		}
	}
	pairings := m.pair(files[0].Spec)
	if !m.describe(&r, files) || len(pairings) == 0 {
		return NoGroup, true, nil
	}
	m.text = binary.AppendVarint(m.text[:0], int64(files[0].Spec))
	for _, p := range pairings {
		m.text = m.residues(m.text, p, r.part, files[0])
		if p.Partitions || p.Statistics {
			for k := range m.staging.Keys {
				m.text = r.of(p)[k].append(m.text)
			}
		}
	}
	if m.staging.Time != nil {
		m.text = r.time.append(m.text)
	}
	if class, ok := m.known[string(m.text)]; ok {
		return class, true, nil
	}
	known := string(m.text)
	class = m.intern(m.find(pairings, r, files[0]))
	m.known[known] = class
	return class, true, nil
}

// of returns what a pairing compares.
func (r rows) of(p *Pairing) []interval {
	if p.Statistics {
		return r.full
	}
	return r.keys
}

// residues appends what selects the staging files of a pairing.
func (m *Match) residues(text []byte, p *Pairing, part int32, f catalog.File) []byte {
	text = binary.AppendVarint(text, int64(part))
	for _, b := range p.Buckets {
		id := m.training.Specs[p.Training][b.training].Bucket(f.Partition[b.training]).ID
		text = binary.AppendVarint(text, int64(id%b.Modulus))
	}
	return text
}

// describe collects what is known of training rows; false if none can match.
func (m *Match) describe(r *rows, files []catalog.File) bool {
	spec, partition := m.training.Specs[files[0].Spec], files[0].Partition
	for _, k := range m.staging.Keys {
		parts := within(spec, partition, k.Training)
		full := parts.and(union(files, k.Training))
		if full.empty {
			return false
		}
		r.keys, r.full = append(r.keys, parts), append(r.full, full)
	}
	if t := m.staging.Time; t != nil {
		span := within(spec, partition, t.Training).and(union(files, t.Training))
		if span.empty {
			return false
		}
		r.time = interval{low: moved(span.low, -t.reach()), high: span.high}
	}
	return true
}

// union is the interval of a column's values in several files.
func union(files []catalog.File, column catalog.Field) interval {
	out := interval{empty: true}
	for _, f := range files {
		out = out.or(statistics(f, column))
	}
	return out
}

// find lists the staging files that training rows may match, ascending.
func (m *Match) find(pairings []*Pairing, r rows, f catalog.File) []int32 {
	var found []int32
	for _, p := range pairings {
		m.text = m.residues(m.text[:0], p, r.part, f)
		for _, i := range m.near(p, r) {
			if m.mayMatch(p, r, &m.facts[i]) {
				found = append(found, i)
			}
		}
	}
	slices.Sort(found)
	return found
}

// near returns the staging files of the residues in m.text, without some that
// cannot match by their first key.
func (m *Match) near(p *Pairing, r rows) []int32 {
	if !p.Partitions && !p.Statistics {
		return p.files[string(m.text)]
	}
	l, ok := p.ladders[string(m.text)]
	if !ok {
		l = newLadder(p.files[string(m.text)], func(i int32) interval {
			if keys := m.facts[i].of(p); keys != nil {
				return keys[0]
			}
			return interval{}
		})
		p.ladders[string(m.text)] = l
	}
	return l.near(r.of(p)[0])
}

// of returns what a pairing compares.
func (f *facts) of(p *Pairing) []interval {
	if p.Statistics && f.full != nil {
		return f.full
	}
	return f.keys
}

// mayMatch compares what is known of training rows and of a staging file.
func (m *Match) mayMatch(p *Pairing, r rows, f *facts) bool {
	if m.staging.Time != nil && !m.whole() && !r.time.overlaps(f.time) {
		return false
	}
	for k, theirs := range f.of(p) {
		if !r.of(p)[k].overlaps(theirs) {
			return false
		}
	}
	return true
}

// intern returns the class of a set of files.
func (m *Match) intern(files []int32) int {
	if len(files) == 0 {
		return NoGroup
	}
	m.text = m.text[:0]
	for _, i := range files {
		m.text = binary.LittleEndian.AppendUint32(m.text, uint32(i))
	}
	class, ok := m.classes[string(m.text)]
	if !ok {
		class = len(m.sets)
		m.classes[string(m.text)] = class
		m.sets = append(m.sets, files)
	}
	return class
}

// Sets returns the files of each class so far, as ascending positions in the
// kept files. They must not be changed.
func (m *Match) Sets() [][]int32 { return m.sets }

// Layout returns how training files of the given spec find staging files.
func (m *Match) Layout(training int) []Pairing {
	layout := make([]Pairing, 0, len(m.specs))
	for _, p := range m.pair(training) {
		public := *p
		public.files, public.ladders = nil, nil
		layout = append(layout, public)
	}
	return layout
}

// Partition tells the partitions apart that training files are aligned by.
func (m *Match) Partition(f catalog.File) string {
	if m.align == nil {
		return ""
	}
	p, _ := alignField(m.training, m.align.rule.Training, f) // Class saw its error
	return fmt.Sprint(p.unit, p.value)
}

// Aligned says for people which staging partition a training partition meets;
// "" if nothing is aligned.
func (m *Match) Aligned() string {
	if m.align == nil {
		return ""
	}
	return m.align.words()
}
