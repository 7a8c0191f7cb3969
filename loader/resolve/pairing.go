package resolve

import (
	"encoding/binary"

	"github.com/penstock/penstock/loader/catalog"
)

// Pairing describes how training files of one partition spec are matched with staging files of
// another spec.
type Pairing struct {
	Training, Staging int          // the ids of the specs
	Buckets           []bucketPair // the key columns that both specs bucket
	Partitions        bool         // whether partition values of key columns narrow the match
	Statistics        bool         // whether value ranges of key columns narrow the match, since no bucket does

	files   map[string][]int32       // staging files by their aligned partition and residues
	indexes map[string]intervalIndex // indexes of the same files by their first key, made on first use
}

// comparesKeys reports whether intervals of keys narrow the match.
func (p *Pairing) comparesKeys() bool { return p.Partitions || p.Statistics }

// keysOfRows returns for each key column the interval of training rows that the pairing compares.
func (p *Pairing) keysOfRows(rows splitFacts) []interval {
	if p.Statistics {
		return rows.full
	}
	return rows.keys
}

// keysOfFile returns for each key column the interval of a staging file that the pairing compares.
// It returns nil if nothing is known about the keys.
func (p *Pairing) keysOfFile(f *fileFacts) []interval {
	if p.Statistics && f.full != nil {
		return f.full
	}
	return f.keys
}

// pairingsOf returns the pairings of the training files of a spec.
func (m *Match) pairingsOf(training int) []*Pairing {
	if pairings, ok := m.pairings[training]; ok {
		return pairings
	}
	pairings := make([]*Pairing, 0, len(m.specs))
	for _, spec := range m.specs {
		p := &Pairing{Training: training, Staging: spec, files: map[string][]int32{}, indexes: map[string]intervalIndex{}}
		if !m.staging.searchedWhole() {
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

// appendResidues appends the values by which a training file selects staging files of a
// pairing: the number of the aligned staging partition, and the residue of each pair of
// buckets.
func (m *Match) appendResidues(text []byte, p *Pairing, part int32, f catalog.File) []byte {
	text = binary.AppendVarint(text, int64(part))
	for _, b := range p.Buckets {
		id := m.training.Specs[p.Training][b.training].Bucket(f.Partition[b.training]).ID
		text = binary.AppendVarint(text, int64(id%b.Modulus))
	}
	return text
}

// candidates returns the staging files with the given residues. If the interval of the first key is
// known, it returns only those whose interval overlaps it. The result includes all files that the
// rows may match, and may include files without a match.
func (m *Match) candidates(p *Pairing, residues []byte, rows splitFacts) []int32 {
	files := p.files[string(residues)]
	if !p.comparesKeys() {
		return files
	}
	index, ok := p.indexes[string(residues)]
	if !ok {
		index = newIntervalIndex(files, func(i int32) interval {
			if keys := p.keysOfFile(&m.facts[i]); keys != nil {
				return keys[0]
			}
			return interval{}
		})
		p.indexes[string(residues)] = index
	}
	return index.overlapping(p.keysOfRows(rows)[0])
}
