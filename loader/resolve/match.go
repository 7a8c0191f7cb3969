package resolve

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/penstock/penstock/loader/catalog"
)

// NoGroup is the file group of training rows that cannot match anything.
const NoGroup = -1

// Match finds the files of one staging table that may contain the keys of training rows. Each set
// of files is a file group. File groups are numbered in the order of first use. There is one
// exception: if both tables have only one layout, with one bucket pair, the numbers are the
// residues modulo the pair's Modulus. A Match is not safe for concurrent use.
type Match struct {
	staging  Staging
	training *catalog.Table
	files    []catalog.File     // the files that pass the staging filter
	facts    []fileFacts        // for each of files
	specs    []int              // the ids of the partition specs of the files, ascending
	align    *aligned           // nil: partitions are not aligned
	pairings map[int][]*Pairing // for each training spec: a pairing with each of specs
	groups   map[string]int     // file groups by their set of files
	known    map[string]int     // file groups by the facts about training rows
	sets     [][]int32          // the files of each file group
	text     []byte             // scratch memory
}

// NewMatch prepares matching for one staging entry of a relation. training has all training files,
// all has all files of the staging table, and kept has those that pass the entry's filter. If the
// tables' layouts do not allow the entry's rules, the error is Invalid.
func NewMatch(r *Relation, staging int, training, all, kept []catalog.File) (*Match, error) {
	s := r.Staging[staging]
	m := &Match{
		staging: s, training: r.Training, files: kept,
		pairings: map[int][]*Pairing{}, groups: map[string]int{}, known: map[string]int{},
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
	m.numberByResidue(training)
	return m, nil
}

// numberByResidue numbers the file groups by their residues if both tables have only one layout and
// only one pair of buckets distinguishes rows.
func (m *Match) numberByResidue(training []catalog.File) {
	if len(training) == 0 || len(m.specs) != 1 || m.align != nil || m.staging.Time != nil ||
		slices.ContainsFunc(training, func(f catalog.File) bool { return f.Spec != training[0].Spec }) {
		return
	}
	p := m.pairingsOf(training[0].Spec)[0]
	if len(p.Buckets) != 1 || p.Partitions {
		return
	}
	for r := range p.Buckets[0].Modulus {
		residues := binary.AppendVarint(binary.AppendVarint(nil, 0), int64(r))
		m.known[string(binary.AppendVarint(nil, int64(p.Training)))+string(residues)] = r
		m.sets = append(m.sets, p.files[string(residues)])
	}
}

// Group returns the file group for the training rows of files, or NoGroup. All files must be of one
// partition. exists reports whether a staging partition is aligned with the files' partition. It is
// true if the entry does not align partitions.
func (m *Match) Group(files []catalog.File) (group int, exists bool, err error) {
	var rows splitFacts
	if m.align != nil {
		if rows.part, err = m.align.partFor(files[0]); err != nil || rows.part == noPart {
			return NoGroup, false, err
		}
	}
	pairings := m.pairingsOf(files[0].Spec)
	if !m.describe(&rows, files) || len(pairings) == 0 {
		return NoGroup, true, nil
	}
	m.text = binary.AppendVarint(m.text[:0], int64(files[0].Spec))
	for _, p := range pairings {
		m.text = m.appendResidues(m.text, p, rows.part, files[0])
		if p.comparesKeys() {
			for _, key := range p.keysOfRows(rows) {
				m.text = key.append(m.text)
			}
		}
	}
	if m.staging.Time != nil {
		m.text = rows.time.append(m.text)
	}
	if group, ok := m.known[string(m.text)]; ok {
		return group, true, nil
	}
	known := string(m.text)
	group = m.groupOf(m.find(pairings, rows, files[0]))
	m.known[known] = group
	return group, true, nil
}

// find returns the staging files that training rows may match, ascending.
func (m *Match) find(pairings []*Pairing, rows splitFacts, f catalog.File) []int32 {
	var found []int32
	for _, p := range pairings {
		m.text = m.appendResidues(m.text[:0], p, rows.part, f)
		for _, i := range m.candidates(p, m.text, rows) {
			if m.mayMatch(p, rows, &m.facts[i]) {
				found = append(found, i)
			}
		}
	}
	slices.Sort(found)
	return found
}

// mayMatch reports whether training rows and a staging file can have a match.
func (m *Match) mayMatch(p *Pairing, rows splitFacts, f *fileFacts) bool {
	if m.staging.Time != nil && !m.staging.searchedWhole() && !rows.time.overlaps(f.time) {
		return false
	}
	for k, key := range p.keysOfFile(f) {
		if !p.keysOfRows(rows)[k].overlaps(key) {
			return false
		}
	}
	return true
}

// groupOf returns the file group of a set of files. It adds a group if the set is new.
func (m *Match) groupOf(files []int32) int {
	if len(files) == 0 {
		return NoGroup
	}
	m.text = m.text[:0]
	for _, i := range files {
		m.text = binary.LittleEndian.AppendUint32(m.text, uint32(i))
	}
	group, ok := m.groups[string(m.text)]
	if !ok {
		group = len(m.sets)
		m.groups[string(m.text)] = group
		m.sets = append(m.sets, files)
	}
	return group
}

// Sets returns the files of each file group that exists so far, as ascending positions in the kept
// files. The caller must not change the result.
func (m *Match) Sets() [][]int32 { return m.sets }

// Layout returns how training files of the given spec find staging files.
func (m *Match) Layout(training int) []Pairing {
	layout := make([]Pairing, 0, len(m.specs))
	for _, p := range m.pairingsOf(training) {
		public := *p
		public.files, public.indexes = nil, nil
		layout = append(layout, public)
	}
	return layout
}

// Partition returns a key of the partition by which a training file is aligned.
func (m *Match) Partition(f catalog.File) string {
	if m.align == nil {
		return ""
	}
	p, _ := alignField(m.training, m.align.rule.Training, f) // Group has checked the error
	return fmt.Sprint(p.unit, p.value)
}

// Aligned describes, for explain texts, which staging partition is aligned with a training
// partition. It returns "" if partitions are not aligned.
func (m *Match) Aligned() string {
	if m.align == nil {
		return ""
	}
	return m.align.words()
}
