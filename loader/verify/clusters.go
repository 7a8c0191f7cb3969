package verify

import (
	"fmt"

	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/plan"
	"github.com/penstock/penstock/loader/resolve"
)

// cluster is staging files that may share keys, and the splits whose rows may
// ask for them.
type cluster struct {
	files  []int // of the files given to clusters
	splits []int // of the plan
}

// forest joins files into groups: parent of a file, itself at the root, which
// is the first of its group.
type forest []int

func (f forest) root(i int) int {
	for f[i] != i {
		f[i] = f[f[i]]
		i = f[i]
	}
	return i
}

func (f forest) join(a, b int) {
	a, b = f.root(a), f.root(b)
	f[max(a, b)] = min(a, b)
}

// clusters divides a staging table's files, and the splits of a plan, so that
// no row of a split matches a row of another cluster: files that some split
// reads are together. The last cluster has the splits that read no file.
func clusters(p *plan.Plan, staging int, files []catalog.File) []cluster {
	at := make(map[string]int, len(files))
	groups := make(forest, len(files))
	for i, f := range files {
		at[f.Location], groups[i] = i, i
	}
	classes := p.Staging[staging].Groups
	read := make([]bool, len(files))
	for _, c := range classes {
		for _, f := range c.Files {
			groups.join(at[c.Files[0].Location], at[f.Location])
			read[at[f.Location]] = true
		}
	}
	groups.joinUnread(read, files, p.Relation.Staging[staging].Align != nil)

	all := make([]cluster, 0, len(files))
	number := make([]int, len(files)) // of a root's cluster
	for i := range files {
		root := groups.root(i)
		if root == i { // comes first in its group
			number[i] = len(all)
			all = append(all, cluster{})
		}
		c := &all[number[root]]
		c.files = append(c.files, i)
	}
	all = append(all, cluster{})
	for i, s := range p.Splits {
		c := len(all) - 1
		if class := s.Groups[staging]; class != resolve.NoGroup && len(classes[class].Files) > 0 {
			c = number[groups.root(at[classes[class].Files[0].Location])]
		}
		all[c].splits = append(all[c].splits, i)
	}
	return all
}

// joinUnread puts the files that no split reads together, so that keys of
// several of them are found. Where partitions are aligned, a training row
// would meet one of them alone: each stays for itself.
func (f forest) joinUnread(read []bool, files []catalog.File, aligned bool) {
	first := map[string]int{}
	for i, file := range files {
		if read[i] {
			continue
		}
		part := ""
		if aligned {
			part = fmt.Sprintf("%d %q", file.Spec, file.Partition)
		}
		if before, ok := first[part]; ok {
			f.join(before, i)
		} else {
			first[part] = i
		}
	}
}
