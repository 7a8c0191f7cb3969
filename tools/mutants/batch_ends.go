package main

// batchEndMutants are ways to end decoded batches elsewhere than a lane's steps.
func batchEndMutants() []mutant {
	scan, rows := []string{"./loader/scan"}, []string{"./loader"}
	return []mutant{
		{"batches-end-anywhere", "internal/parquet/reader.go", "\t\treturn rows - beyond\n", "\t\treturn rows\n", scan},
		{"steps-begin-with-each-file", "loader/scan/file.go", "w.source.Begun + r.want.Ordinal - w.source.Files[0].Ordinal", "w.source.Begun", scan},
		{"steps-begin-with-each-range", "loader/joined/lane_state.go", "\t\trows += r.To - r.From\n", "\t\trows += 0 * r.To\n", rows},
		{"steps-do-not-know-the-cursor", "loader/joined/training.go", "l.rowsBefore[l.First] - l.Row", "l.rowsBefore[l.First]", rows},
		{"filtered-rows-have-steps", "loader/joined/training.go", "rows > 0 && s.plan.Inexact == \"\" {", "rows > 0 {", rows},
	}
}
