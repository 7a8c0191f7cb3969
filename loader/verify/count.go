package verify

import (
	"context"
	"slices"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock/penstock/loader/plan"
)

// count sums up what the ledger of a pass holds.
func (m *meeting) count(l *ledger) {
	for from := 0; from < len(l.keys); {
		to := from + 1
		for to < len(l.keys) && l.keys[to].name == l.keys[from].name {
			to++
		}
		m.sum.Keys++
		rows := int64(0)
		earliest := l.keys[from]
		for _, k := range l.keys[from:to] {
			rows += k.rows
			if k.spots[0].compare(earliest.spots[0]) < 0 {
				earliest = k
			}
			if k.rows > 1 {
				m.sum.SurplusRows += k.rows - 1
				m.double(k)
			}
		}
		if !l.keys[from].wanted {
			m.sum.OrphanKeys++
			m.sum.OrphanRows += rows
			earliest.rows = rows
			m.orphans.keep(earliest)
		}
		from = to
	}
}

func (m *meeting) double(k heldKey) {
	m.sum.DuplicateKeys++
	if k.asked {
		m.sum.DuplicatesAsked++
	}
	m.doubles.keep(k)
}

// spots are the first few keys in the order of files and rows.
type spots []heldKey

func (s *spots) keep(k heldKey) {
	at, _ := slices.BinarySearchFunc(*s, k, func(a, b heldKey) int { return a.spots[0].compare(b.spots[0]) })
	if at < examples {
		*s = slices.Insert(*s, at, k)
		*s = (*s)[:min(len(*s), examples)]
	}
}

// shown reads the values of example keys.
func (m *meeting) shown(ctx context.Context, keys spots) ([]Key, error) {
	out := []Key{}
	for _, k := range keys {
		e := Key{Rows: k.rows, Files: []string{m.files[k.spots[0].file].Location}}
		if k.spots[1] != (spot{}) {
			e.Files = append(e.Files, m.files[k.spots[1].file].Location)
		}
		at := k.spots[0]
		source := plan.Source{
			Table: m.relation.Pinned, Planned: m.listed, Files: []plan.FileRange{{File: m.files[at.file], From: at.row, To: at.row + 1}},
		}
		_, err := m.read(ctx, m.relation.Name, source, m.columns.staging, func(rows arrow.RecordBatch, _ int64) error {
			e.Key = keyText(rows, m.columns.stagingKey)
			return nil
		})
		if err != nil {
			return nil, err
		}
		out = append(out, e)
	}
	return out, nil
}

// keyText renders the key of the first row.
func keyText(rows arrow.RecordBatch, key []int) string {
	values := make([]string, len(key))
	for i, at := range key {
		values[i] = shorten(rows.Column(at).ValueStr(0))
	}
	return strings.Join(values, ", ")
}
