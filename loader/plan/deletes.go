package plan

import (
	"fmt"
	"slices"
	"strings"

	"github.com/penstock/penstock/loader/catalog"
)

// countDeleted records how many rows are deleted in the files that are read. The counts of deletion
// vectors are known, but those of other delete files are not.
func (p *Plan) countDeleted() {
	var files []catalog.File
	for _, split := range p.Splits {
		for _, f := range split.Files {
			if f.From > 0 {
				continue // an earlier split has the file too
			}
			files = append(files, f.File)
			if v := f.File.Deletes.Vector; v != nil {
				p.Deleted += v.Rows
			}
		}
	}
	uses := DeletesOf(files)
	p.deleteFiles = uses.count()
	if p.Inexact == "" && len(uses) > 0 {
		p.Inexact = "rows are deleted: " + strings.Join(uses.Texts(), ", ")
		p.counted = len(uses) == 1 && uses[0].kind == catalog.DeletionVector
	}
}

// DeleteFiles returns how many delete files of the training and staging files the plan
// uses.
func (p *Plan) DeleteFiles() int {
	n := p.deleteFiles
	for i := range p.Staging {
		n += DeletesOf(p.Staging[i].Files()).count()
	}
	return n
}

// DeleteUses counts the delete files of some data files by kind.
type DeleteUses []deleteUse

type deleteUse struct {
	kind  catalog.DeleteKind
	files int
	bytes int64
}

// DeletesOf counts the delete files of some data files.
func DeletesOf(files []catalog.File) DeleteUses {
	uses := DeleteUses{{kind: catalog.PositionDeletes}, {kind: catalog.DeletionVector}, {kind: catalog.EqualityDeletes}}
	seen := map[*catalog.DeleteFile]bool{}
	add := func(d *catalog.DeleteFile) {
		if seen[d] {
			return
		}
		seen[d] = true
		at := slices.IndexFunc(uses, func(u deleteUse) bool { return u.kind == d.Kind })
		uses[at].files++
		uses[at].bytes += d.Size()
	}
	lists := map[catalog.DeleteList]bool{}
	addAll := func(list []*catalog.DeleteFile) {
		if lists[catalog.ListOf(list)] {
			return
		}
		lists[catalog.ListOf(list)] = true
		for _, d := range list {
			add(d)
		}
	}
	for _, f := range files {
		if f.Deletes.Vector != nil {
			add(f.Deletes.Vector)
		}
		addAll(f.Deletes.Positions)
		for _, g := range f.Deletes.Equality {
			addAll(g.After(f.Sequence))
		}
	}
	return slices.DeleteFunc(uses, func(u deleteUse) bool { return u.files == 0 })
}

func (u DeleteUses) count() int {
	n := 0
	for _, use := range u {
		n += use.files
	}
	return n
}

// Bytes returns the total size of the delete files.
func (u DeleteUses) Bytes() int64 {
	bytes := int64(0)
	for _, use := range u {
		bytes += use.bytes
	}
	return bytes
}

// Texts describes the delete files of each kind.
func (u DeleteUses) Texts() []string {
	texts := make([]string, len(u))
	for i, use := range u {
		texts[i] = use.String()
	}
	return texts
}

// String describes the use for the explain text.
func (u deleteUse) String() string {
	what := ""
	switch u.kind {
	case catalog.DeletionVector:
		what = Counted(u.files, "deletion vector")
	case catalog.PositionDeletes:
		what = Counted(u.files, "file") + " of position deletes"
	case catalog.EqualityDeletes:
		what = Counted(u.files, "file") + " of equality deletes"
	}
	return what
}

// Counted renders a count and its unit for people.
func Counted[N int | int64](n N, what string) string {
	switch {
	case n == 1:
		return "1 " + what
	case strings.HasSuffix(what, "s"):
		what += "e"
	}
	return fmt.Sprintf("%d %ss", n, what)
}
