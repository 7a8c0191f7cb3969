package verify

import (
	"fmt"

	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/plan"
	"github.com/penstock/penstock/loader/resolve"
)

// cluster is a set of staging files that may share keys, and the splits whose rows may have these
// keys. File groups that share a file are in the same cluster.
type cluster struct {
	files  []int // indexes of the files given to clusters
	splits []int // indexes of splits of the plan
}

// forest is a union-find structure of files. It has the parent of each file by number; a root is
// its own parent. The root of a tree is the file with the lowest number.
type forest []int

func (f forest) root(i int) int {
	for f[i] != i {
		f[i] = f[f[i]]
		i = f[i]
	}
	return i
}

func (f forest) unite(a, b int) {
	a, b = f.root(a), f.root(b)
	f[max(a, b)] = min(a, b)
}

// clusters divides a staging table's files, and the splits of a plan, so that no row of a
// split matches a row of another cluster: the files of a file group are in one cluster. The
// last cluster has the splits that read no file.
func clusters(p *plan.Plan, staging int, files []catalog.File) []cluster {
	at := make(map[string]int, len(files))
	together := make(forest, len(files))
	for i, f := range files {
		at[f.Location], together[i] = i, i
	}
	groups := p.Staging[staging].Groups
	read := make([]bool, len(files))
	for _, g := range groups {
		for _, f := range g.Files {
			together.unite(at[g.Files[0].Location], at[f.Location])
			read[at[f.Location]] = true
		}
	}
	together.joinUnread(read, files, p.Relation.Staging[staging].Align != nil)

	all := make([]cluster, 0, len(files))
	number := make([]int, len(files)) // number of the cluster, by root
	for i := range files {
		root := together.root(i)
		if root == i { // the first file of its cluster
			number[i] = len(all)
			all = append(all, cluster{})
		}
		c := &all[number[root]]
		c.files = append(c.files, i)
	}
	all = append(all, cluster{})
	for i, s := range p.Splits {
		c := len(all) - 1
		if g := s.Groups[staging]; g != resolve.NoGroup && len(groups[g].Files) > 0 {
			c = number[together.root(at[groups[g].Files[0].Location])]
		}
		all[c].splits = append(all[c].splits, i)
	}
	return all
}

// joinUnread unites the files that no split reads, so that keys that are in several of these files
// are found. If partitions are aligned, a training row matches rows of only one partition, so only
// files of the same partition are united.
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
			f.unite(before, i)
		} else {
			first[part] = i
		}
	}
}
