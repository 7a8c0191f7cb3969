package promote

import (
	"path"
	"strings"
)

// has reports whether a file has the columns: only files of the promotion have its prefix.
func (p *promoting) has(location string) bool {
	return strings.HasPrefix(path.Base(location), p.prefix+"-")
}

// folderOf returns the folder for the file that replaces another one: that of the old file, if it is the table's.
func (p *promoting) folderOf(location string) string {
	folder := p.state.DataFolder()
	if dir := location[:strings.LastIndexByte(location, '/')]; strings.HasPrefix(dir+"/", folder+"/") {
		return dir
	}
	return folder
}
