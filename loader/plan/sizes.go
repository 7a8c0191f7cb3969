package plan

import "github.com/penstock/penstock/loader/resolve"

// ColumnSizes has the stored size of the columns that streams of a plan read, for each file by its
// location. It omits files with unknown sizes. It is used only for explain texts.
type ColumnSizes struct {
	Training map[string]int64
	Staging  []map[string]int64 // by staging entry
}

// Of returns the known sizes of the files of a staging entry or of resolve.TrainingTable. A nil
// *ColumnSizes knows no sizes.
func (s *ColumnSizes) Of(table int) map[string]int64 {
	switch {
	case s == nil:
		return nil
	case table == resolve.TrainingTable:
		return s.Training
	}
	return s.Staging[table]
}
