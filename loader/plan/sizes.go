package plan

import "github.com/penstock/penstock/loader/resolve"

// ColumnSizes are the stored sizes of the columns that streams of a plan read, by the location of a file. Files without
// known sizes are left out. They only serve explain texts.
type ColumnSizes struct {
	Training map[string]int64
	Staging  []map[string]int64 // by staging entry
}

// Of returns the known sizes of a staging entry or of resolve.TrainingTable; of nil, none are known.
func (s *ColumnSizes) Of(table int) map[string]int64 {
	switch {
	case s == nil:
		return nil
	case table == resolve.TrainingTable:
		return s.Training
	}
	return s.Staging[table]
}
