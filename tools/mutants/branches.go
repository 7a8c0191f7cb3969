package main

// branchMutants move, begin and take back branches wrongly.
func branchMutants() []mutant {
	tables := []string{"./loader/catalog/icebergcat"}
	return []mutant{
		{"branches-begin-anywhere", "loader/catalog/icebergcat/commit.go", "	return head, 0, nil\n", "	return head, idOf(head), nil\n", tables},
		{"branches-begin-again", "loader/catalog/icebergcat/commit.go", "p.change.Begin == 0 || fault.KindOf(err) != fault.NotFound", "p.change.Begin == 0", tables},
		{"main-begins-anywhere", "loader/catalog/commit/check.go", "c.Begin != 0 && (c.Branch ==", "c.Begin < 0 && (c.Branch ==", []string{"./loader/catalog/commit"}},
		{"stage-begins-no-branch", "loader/stage/stage.go", "		change.Begin = c.target.state.Table.Pin.Snapshot\n", "		change.Begin = 0\n", []string{"./loader/stage"}},
	}
}
