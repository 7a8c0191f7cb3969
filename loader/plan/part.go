package plan

import (
	"encoding/binary"

	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/resolve"
)

// Part is the range [From, To) of the splits of a plan with one lane. From and To are indices in
// the plan's order of splits. Each endpoint reads one Part. The zero Part stands for all splits.
type Part struct {
	From int `json:"from"`
	To   int `json:"to"`
}

// IsZero reports whether the part stands for all splits.
func (p Part) IsZero() bool { return p == Part{} }

// maxParts is the maximum number of endpoints of a plan.
const maxParts = 1024

// PartsFrom divides the splits, in order, into parts, and returns the parts from the given split
// on. Normally each part is one split. If there are more than maxParts splits, parts are ranges of
// about equally many splits. The first part begins at the given split; the ends of the parts depend
// only on the plan. If the given split is after the last one, the result is a single empty part.
func (p *Plan) PartsFrom(split int) []Part {
	splits := len(p.Splits)
	if split == splits {
		return []Part{{From: splits, To: splits}}
	}
	var parts []Part
	for i, count := 0, min(splits, maxParts); i < count; i++ {
		if from, to := i*splits/count, (i+1)*splits/count; to > split {
			parts = append(parts, Part{From: max(from, split), To: to})
		}
	}
	return parts
}

// SplitsOf returns the splits of a part.
func (p *Plan) SplitsOf(part Part) []Split {
	if part.IsZero() {
		return p.Splits
	}
	return p.Splits[part.From:part.To]
}

// NoFiles is the number of a split that joins no staging files.
const NoFiles = -1

// JoinedFiles numbers what splits join: two splits have equal numbers if their file groups are equal
// in every staging table. It returns the number of each split, from 0 in the stored order, or
// NoFiles, and how many numbers there are. The order of the splits in the plan does not matter.
func (p *Plan) JoinedFiles() (of []int, count int) {
	stored := make([]int, len(p.Splits)) // by position in the stored order: the split
	for split := range p.Splits {
		at := split
		if p.storedOrder != nil {
			at = p.storedOrder[split]
		}
		stored[at] = split
	}
	of = make([]int, len(p.Splits))
	numbers := map[string]int{}
	var groups []byte
	for _, split := range stored {
		groups, of[split] = groups[:0], NoFiles
		joins := false
		for _, group := range p.Splits[split].Groups {
			groups = binary.AppendVarint(groups, int64(group))
			joins = joins || group != resolve.NoGroup
		}
		if !joins {
			continue
		}
		number, known := numbers[string(groups)]
		if !known {
			number = len(numbers)
			numbers[string(groups)] = number
		}
		of[split] = number
	}
	return of, len(numbers)
}

// RowsBefore returns the number of stored rows in the ranges of a lane before a position. If the
// plan is exact, the lane has returned this many rows at that position.
func (p *Plan) RowsBefore(at dataset.Position) int64 {
	rows, ranges := at.Row, p.Lanes[at.Lane].Ranges
	for _, r := range ranges[:at.Range] {
		rows += r.To - r.From
	}
	if at.Window > 0 {
		run := p.runAt(at.Lane, at.Range)
		rows += run.RowsBefore(at.Window)
	}
	return rows
}
