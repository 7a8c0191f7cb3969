package promote

// SetSizes makes a Promoter read at least some rows as one stream, and commit some files at a time.
func (p *Promoter) SetSizes(runRows int64, groupFiles int) {
	p.runRows, p.groupFiles = runRows, groupFiles
}
