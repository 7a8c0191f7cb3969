package promote

// SetSizes sets the minimum number of rows that are read as one stream, and the number of files per
// commit.
func (p *Promoter) SetSizes(runRows int64, groupFiles int) {
	p.runRows, p.groupFiles = runRows, groupFiles
}
