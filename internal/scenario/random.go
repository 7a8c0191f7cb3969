package scenario

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"

	"github.com/penstock/penstock/joiner/rule"
	"github.com/penstock/penstock/loader"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/dataset/datasettest"
)

// Shape has the parameters of a plain case besides its seed.
type Shape struct {
	TrainingBuckets int
	StagingBuckets  []int // one for each staging table
	FileRows        int   // rows of training files; 0: one file for each partition and commit
	BatchRows       int   // rows per batch of the scan
}

// Made is a case with its tables.
type Made struct {
	*World
	*Case
}

// Random makes a plain case from a seed: bucketed tables with one key column, left and
// inner joins. The rows and rules depend only on the seed and the number of staging
// tables. Generate makes cases with all rules.
func Random(seed uint64, shape Shape) (*Made, error) {
	r := rand.New(rand.NewPCG(seed, 7))
	g := plain{Rand: r, text: r.IntN(3) == 0, keys: 1 + r.IntN(24)}
	c := &Case{
		Name: "d", Training: g.training(shape), ScanRows: shape.BatchRows, Layouts: Coverage{}, Query: dataset.Query{Rows: dataset.Rows{Dataset: "d"}},
		Dataset: dataset.Dataset{Name: "d", Key: []string{"request_id"}, Training: dataset.Training{Table: "ml.train"}},
	}
	for i, m := range shape.StagingBuckets {
		c.Staging = append(c.Staging, g.staging(i, m))
		c.Dataset.Staging = append(c.Dataset.Staging, g.entry(i))
	}
	if g.IntN(3) == 0 {
		c.Dataset.Training.Filter = datasettest.Filter(fmt.Sprintf("item >= %d", 1+g.IntN(60)))
	}
	w, err := c.Make()
	return &Made{World: w, Case: c}, err
}

// Loader returns a loader that reads the tables of the case.
func (m *Made) Loader() *loader.Loader {
	return loader.New(loader.Options{Datasets: []dataset.Dataset{m.Dataset}, Catalog: m.World, Scan: m.Scan})
}

type plain struct {
	*rand.Rand
	text bool // whether keys are strings
	keys int  // number of distinct keys
}

func (g *plain) key() string {
	if g.IntN(12) == 0 {
		return null
	}
	k := g.IntN(g.keys) * 7919
	if g.text {
		return fmt.Sprintf("k%d", k)
	}
	return strconv.Itoa(k)
}

func (g *plain) kind() string {
	if g.text {
		return "string"
	}
	return "long"
}

func (g *plain) training(shape Shape) Table {
	t := Table{
		Name: "ml.train", Header: "request_id:" + g.kind() + " day:long item:long! score:float tags:list<long>",
		Specs: []string{fmt.Sprintf("bucket(%d,request_id)", shape.TrainingBuckets)},
	}
	if g.IntN(2) == 0 {
		t.Specs[0] = "day " + t.Specs[0]
	}
	item := 0
	for range 1 + g.IntN(3) {
		c := Commit{FileRows: shape.FileRows}
		for range g.IntN(50) {
			item++
			c.Lines = append(c.Lines, fmt.Sprintf("%s %d %d %s %s", g.key(), g.IntN(3), item, g.maybe("0.5"), g.maybe("["+strings.Repeat("1,", g.IntN(3))+"2]")))
		}
		t.Commits = append(t.Commits, c)
	}
	return t
}

func (g *plain) maybe(text string) string {
	if g.IntN(5) == 0 {
		return null
	}
	return text
}

func (g *plain) staging(i, buckets int) Table {
	name := fmt.Sprintf("s%d", i)
	t := Table{
		Name: "features." + name, Header: fmt.Sprintf("req:%s version:long! %s_user:long %s_tags:list<long> %s_text:string", g.kind(), name, name, name),
		Specs: []string{fmt.Sprintf("bucket(%d,req)", buckets)},
	}
	for range 1 + g.IntN(3) {
		c := Commit{FileRows: g.IntN(4)}
		for range g.IntN(2 * g.keys) {
			c.Lines = append(c.Lines, fmt.Sprintf("%s %d %s %s t%d", g.key(), g.IntN(5), g.maybe(strconv.Itoa(g.IntN(1000))), g.maybe("[3,null]"), g.IntN(100)))
		}
		t.Commits = append(t.Commits, c)
	}
	return t
}

func (g *plain) entry(i int) dataset.Staging {
	name := fmt.Sprintf("s%d", i)
	entry := dataset.Staging{
		Table: "features." + name, Name: name, Key: []dataset.KeyPair{{Training: "request_id", Staging: "req"}},
		Columns: []dataset.Column{{Column: name + "_text"}, {Column: name + "_user", Name: name + "_u"}, {Column: name + "_tags"}},
		Join:    rule.Left, Missing: rule.MissingNull, Duplicates: rule.DuplicatesLast,
	}
	if g.IntN(2) == 0 {
		entry.Duplicates = rule.DuplicatesFirst
	}
	if g.IntN(4) == 0 {
		entry.Join = rule.Inner
	}
	if g.IntN(4) == 0 {
		entry.Filter = datasettest.Filter("version < 3")
	}
	return entry
}
