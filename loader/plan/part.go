package plan

import "github.com/penstock/penstock/loader/dataset"

// Part is consecutive splits [From, To) of a plan with one lane, by their place in
// the order: what an endpoint of its own reads. The zero Part is all of them.
type Part struct {
	From int `json:"from"`
	To   int `json:"to"`
}

// IsZero says whether it is all splits.
func (p Part) IsZero() bool { return p == Part{} }

// maxParts is how many endpoints a plan has at most.
const maxParts = 1024

// PartsFrom divides the splits, in order, and returns the parts from a split on: one
// each, or ranges of about equal numbers where there are more than maxParts. Where
// they end depends on the plan alone, whatever split they are asked for from; that is
// the beginning of the first. Behind the last split there is one part without any.
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

// RowsBefore returns how many rows the ranges of a lane have before a position, as
// stored: what the lane has given there if the plan is exact.
func (p *Plan) RowsBefore(at dataset.Position) int64 {
	rows := at.Window*p.Rows.ShuffleWindow + at.Row
	for _, r := range p.Lanes[at.Lane].Ranges[:at.Range] {
		rows += r.To - r.From
	}
	return rows
}
