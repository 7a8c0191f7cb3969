package promote

import (
	"path"
	"strings"
)

// has reports whether a file has the columns: only files of the promotion have its prefix.
func (p *promoting) has(location string) bool {
	return strings.HasPrefix(path.Base(location), p.prefix+"-")
}

// dataPathOption is the property of a table with the folder of its data files.
const dataPathOption = "write.data.path"

// dataFolder returns the folder of the table's data files.
func (p *promoting) dataFolder() string {
	if folder := strings.TrimRight(p.state.Properties[dataPathOption], "/"); folder != "" {
		return folder
	}
	return strings.TrimRight(p.state.Table.Location, "/") + "/data"
}

// folderOf returns the folder for the file that replaces another one: that of the old file, if it is the table's.
func (p *promoting) folderOf(location string) string {
	folder := p.dataFolder()
	if dir := location[:strings.LastIndexByte(location, '/')]; strings.HasPrefix(dir+"/", folder+"/") {
		return dir
	}
	return folder
}
