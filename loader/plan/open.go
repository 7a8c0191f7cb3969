package plan

// OpenRowGroups are the row groups that a lane reads at a time.
type OpenRowGroups struct{ Number, Bytes int64 }

// OpenRowGroups returns the maximum number and the maximum total size of the row groups that any lane reads at a time, assuming that
// a row group may be its whole file. If rows are permuted, each part of a run reads a different row group.
func (p *Plan) OpenRowGroups() OpenRowGroups {
	largest := p.LargestFile()
	open := OpenRowGroups{Number: 1, Bytes: largest}
	if p.Rows.ShuffleWindow == 0 || p.Rows.ShuffleParts == 1 {
		return open
	}
	open.Number = p.Rows.ShuffleParts
	for lane := range p.Lanes {
		for _, r := range p.Runs(lane) {
			open.Bytes = max(open.Bytes, min(p.runBytes(p.Lanes[lane].Ranges[r.First:][:r.Ranges()]), p.Rows.ShuffleParts*largest))
		}
	}
	return open
}

// runBytes returns the size of the files of a run.
func (p *Plan) runBytes(run []Range) int64 {
	seen, bytes := map[string]bool{}, int64(0)
	for _, of := range run {
		row := int64(0)
		for _, f := range p.Splits[of.Split].Files {
			from, to := max(row, of.From), min(row+f.To-f.From, of.To)
			row += f.To - f.From
			if from < to && !seen[f.File.Location] {
				seen[f.File.Location] = true
				bytes += f.File.Bytes
			}
		}
	}
	return bytes
}

// LargestFile returns the size of the largest training file that is read, in bytes.
func (p *Plan) LargestFile() int64 {
	bytes := int64(0)
	for _, s := range p.Splits {
		for _, f := range s.Files {
			bytes = max(bytes, f.File.Bytes)
		}
	}
	return bytes
}

// TrainingBytes returns the size of the training files that the plan reads, each once.
func (p *Plan) TrainingBytes() int64 {
	seen, bytes := map[string]bool{}, int64(0)
	for _, s := range p.Splits {
		for _, f := range s.Files {
			if !f.Pruned && !seen[f.File.Location] {
				seen[f.File.Location] = true
				bytes += f.File.Bytes
			}
		}
	}
	return bytes
}
